"""The node's API certificates: followed in the State, as TLS contexts and credentials."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress

import trio
from cryptography import x509

from talos.api.definitions import secrets_pb2 as secrets
from talos.apid.peers import PORT, Peers
from talos.process.follow import follow
from talos.resource import ids
from talos.resource.state import State
from talos.rpc.port.remote import ClientTls, make_client_context
from talos.rpc.port.tls import TlsSettings, make_context
from talos.system.errors import UserError
from talos.system.logging import Log

ADDRESS_TIMEOUT = 3.0
"""Seconds from the first connection to an address until it is served without a certificate that has it.

A node gets an address before the certificate with it; a worker's is signed by another node meanwhile.
"""

MAX_AWAITED = 16
"""Addresses that certificates are awaited for, or were and never had them."""


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
        self._addresses = frozenset[str]()
        self._deadlines: dict[str, float] = {}
        self._changed = asyncio.Event()

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the next connection."""
        return self._context

    async def wait_for(self, address: str) -> None:
        """On asyncio: wait until the certificate has an address of the node's, at most until its deadline.

        It is an address's, not each connection's: some are in no certificate, such as 127.0.0.1.
        """
        if self._has(address):
            return
        now = asyncio.get_running_loop().time()
        if address not in self._deadlines and len(self._deadlines) < MAX_AWAITED:
            self._deadlines[address] = now + ADDRESS_TIMEOUT
        deadline = self._deadlines.get(address, now)
        if deadline <= now:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not self._has(address):
                    await self._changed.wait()

    def _has(self, address: str) -> bool:
        """Whether new connections to an address need not wait; in maintenance no client verifies the node."""
        return address in self._addresses or self._spec is None or self._spec.skip_verifying_client_cert

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
            addresses = frozenset[str]() if spec is None else _read_addresses(spec.server.crt)
        except (ssl.SSLError, UserError, ValueError) as error:
            self._log.error("the API certificates can't be used, the old ones stay", reason=str(error))
            return
        self._spec, self._context, self._addresses = spec, context, addresses
        # One that comes back after it has left the certificate is awaited anew.
        self._deadlines = {one: at for one, at in self._deadlines.items() if one not in addresses}
        self._changed.set()
        self._changed = asyncio.Event()
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


def _read_addresses(certificate: bytes) -> frozenset[str]:
    extensions = x509.load_pem_x509_certificate(certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(map(str, names.get_values_for_type(x509.IPAddress)))


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
