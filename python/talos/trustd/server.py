"""trustd as one object: the port, the signer behind it and what both follow in the State."""

import ssl
from typing import TYPE_CHECKING

import trio

from talos.api.definitions import secrets_pb2 as secrets
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.pki.authority import CertificateAuthority
from talos.process.follow import follow
from talos.resource import ids
from talos.resource.state import State
from talos.rpc.port.limits import Limits
from talos.rpc.port.listener import TlsListener
from talos.rpc.port.tls import TlsSettings, make_context
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.trustd.secrets import Secrets
from talos.trustd.signer import Signer

if TYPE_CHECKING:
    from talos.config.effective.login import Login

PORT = 50001

LOGIN_KIND = b"OIDCLoginConfig"
"""Without this in its text a config is not read: what reads configs is large."""

# Clients have no certificate, and no connection is needed for long: a worker makes one call, twice a day.
LIMITS = Limits(
    connections=64,
    connections_per_client=8,
    streams=8,
    calls=64,
    request_memory=1024 * 1024,
    header_size=4 * 1024,
    idle_timeout=20.0,
    one_call=True,
)


class TrustServer:
    """Made, started and stopped on asyncio; fed from trio. ``usable`` is set by its certificate."""

    def __init__(self, log: Log, *, limits: Limits = LIMITS) -> None:
        self.usable = trio.Event()
        self._log = log
        self._login: Login | None = None
        self._context: ssl.SSLContext | None = None
        self._signer = Signer(log)
        self._listener = TlsListener(
            self._signer.handle, context=lambda: self._context, log=log, limits=limits
        )

    async def watch(self, state: State) -> None:
        """Follow the State until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, state, *ids.TRUSTD_CERTIFICATE, self.set_certificate, self._log)
            nursery.start_soon(follow, state, *ids.OS_ROOT_SECRET, self.set_root, self._log)
            nursery.start_soon(follow, state, *ids.MACHINE_CONFIG, self.set_config, self._log)

    def set_certificate(self, spec: secrets.TrustdCertsSpec | None) -> None:
        """Serve with this certificate from now on."""
        if spec is None:
            self._context = None
            return
        try:
            self._context = make_context(TlsSettings(certificate=spec.server.crt, key=spec.server.key))
        except ssl.SSLError as error:
            self._log.error("the certificate can't be used, the old one stays", reason=str(error))
            return
        self.usable.set()
        self._log.info("the certificate changed")

    def set_root(self, spec: secrets.OSRootSpec | None) -> None:
        """Sign with this CA and require this token from now on."""
        if spec is None or not spec.issuing_ca.key:
            self._signer.secrets = None
            return
        try:
            authority = CertificateAuthority.from_pem(spec.issuing_ca.crt, spec.issuing_ca.key)
        except UserError as error:
            self._log.error("the CA can't be used, the old one stays", reason=str(error))
            return
        self._signer.secrets = Secrets(
            authority=authority,
            accepted=tuple(accepted.crt for accepted in spec.accepted_c_as),
            token=spec.token,
        )

    def set_config(self, spec: MachineConfigSpec | None) -> None:
        """Trade tokens by this config's settings from now on, or not at all."""
        chosen = None
        if spec is not None and LOGIN_KIND in spec.yaml_marshalled:
            from talos.config.active import parse_active
            from talos.config.effective.login import login

            try:
                chosen = login(parse_active(spec.yaml_marshalled))
            except UserError as error:
                self._log.error("the config can't be read, every login is refused", reason=str(error))
        if chosen == self._login:
            return
        self._login = chosen
        if chosen is None:
            self._signer.login = None
            return
        from talos.trustd.login.service import LoginService

        self._signer.login = LoginService(chosen, self._log)
        self._log.info("people can log in", issuer=chosen.issuer, client=chosen.client_id)

    def start(self, port: int = PORT, host: str = "") -> int:
        """Listen; returns the port."""
        return self._listener.start(port, host)

    async def stop(self, grace: float = 5.0) -> None:
        """Finish the open calls within ``grace`` seconds."""
        await self._listener.stop(grace)
