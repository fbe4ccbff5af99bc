"""The node's API certificates: followed in the State, as TLS contexts and credentials."""

import ssl
from collections.abc import Callable

import trio

from talos.api.definitions import secrets_pb2 as secrets
from talos.apid.peers import PORT, Peers
from talos.process.follow import follow
from talos.resource import ids
from talos.resource.state import State
from talos.rpc.port.remote import ClientTls, make_client_context
from talos.rpc.port.tls import TlsSettings, make_context
from talos.system.errors import UserError
from talos.system.logging import Log


class Certificates:
    """The TLS context for new connections and the connections to peers.

    Both are replaced when the certificates change. Open connections go on with what they
    have; those to peers end with their last call. ``usable`` is set by the first certificates.
    """

    def __init__(
        self, apply: Callable[[Peers | None, bool], None], log: Log, *, peer_port: int = PORT
    ) -> None:
        self.usable = trio.Event()
        self._apply = apply
        self._log = log
        self._peer_port = peer_port
        self._spec: secrets.APICertsSpec | None = None
        self._peers: Peers | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the next connection."""
        return self._context

    async def watch(self, state: State) -> None:
        """Follow the State until cancelled."""
        await follow(state, *ids.API_CERTIFICATE, self.set, self._log)

    def set(self, spec: secrets.APICertsSpec | None) -> None:
        """Use these certificates from now on. Those that can't be used are reported, not used."""
        if spec == self._spec:
            return
        try:
            context = None if spec is None else _make_context(spec)
            peers = None if spec is None else _make_peers(spec, self._peer_port)
        except (ssl.SSLError, UserError, ValueError) as error:
            self._log.error("the API certificates can't be used, the old ones stay", reason=str(error))
            return
        self._spec, self._context = spec, context
        if self._peers is not None:
            self._peers.retire()
        self._peers = peers
        self._apply(peers, spec is not None and spec.skip_verifying_client_cert)
        if context is not None:
            self.usable.set()
        self._log.info("the API certificates changed", present=spec is not None, forwarding=peers is not None)

    def close(self) -> None:
        """On asyncio: close the connections to peers."""
        if self._peers is not None:
            self._peers.close()


def _make_context(spec: secrets.APICertsSpec) -> ssl.SSLContext:
    authorities = tuple(authority.crt for authority in spec.accepted_c_as)
    if not authorities and not spec.skip_verifying_client_cert:
        raise UserError("there is no CA to verify clients with", where="ApiCertificates api")
    return make_context(
        TlsSettings(
            certificate=spec.server.crt,
            key=spec.server.key,
            client_authorities=() if spec.skip_verifying_client_cert else authorities,
        )
    )


def _make_peers(spec: secrets.APICertsSpec, port: int) -> Peers | None:
    """None on workers: they have no certificate for other nodes."""
    if not spec.client.crt:
        return None
    credentials = ClientTls(
        certificate=spec.client.crt,
        key=spec.client.key,
        authorities=tuple(authority.crt for authority in spec.accepted_c_as),
    )
    return Peers(make_client_context(credentials), port=port)
