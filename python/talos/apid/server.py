"""apid as one object: the port, the proxy behind it and what both follow in the State."""

from pathlib import Path

from talos.apid.admission import Admission
from talos.apid.certificates import Certificates
from talos.apid.own_names import OwnNames
from talos.apid.peers import PORT, Peers
from talos.apid.proxy import Proxy
from talos.process.audit import Audit
from talos.process.call_log import CallLog
from talos.process.daemons import ROUTERD
from talos.rpc.client_quota import ClientQuota
from talos.rpc.limits import REPLY_MEMORY, WIDE_WINDOWS
from talos.rpc.port.limits import Limits
from talos.rpc.port.listener import TlsListener
from talos.rpc.proxy.local import open_local
from talos.system.logging import Log

ROUTER_SOCKET = Path(ROUTERD.socket)

STOP_TIMEOUT = 10.0
"""Seconds that open calls have when apid stops (as upstream)."""


class ApiServer:
    """Made, started and stopped on asyncio; ``own``, ``admission`` and ``certificates`` are fed from trio."""

    def __init__(
        self,
        log: Log,
        *,
        router: Path = ROUTER_SOCKET,
        peer_port: int = PORT,
        limits: Limits | None = None,
        reply_memory: int = REPLY_MEMORY,
    ) -> None:
        self.own = OwnNames()
        self.admission = Admission()
        self._channel = open_local(str(router))
        self._proxy = Proxy(
            router=self._channel,
            is_own=self.own.is_own,
            log=log,
            audit=Audit(log),
            calls=CallLog(log),
            reply_memory=ClientQuota(reply_memory, "large replies", WIDE_WINDOWS),
        )
        self.certificates = Certificates(self._apply, log, peer_port=peer_port)
        self._listener = TlsListener(
            self._proxy.handle,
            context=self.certificates.context,
            wait_for=self.certificates.wait_for,
            admits=self._admits,
            log=log,
            limits=limits,
        )

    def _admits(self, there: str, here: str) -> bool:
        return not self._proxy.maintenance or self.admission.admits(there, here)

    def _apply(self, peers: Peers | None, maintenance: bool) -> None:
        if self._proxy.maintenance and not maintenance:
            # Connections without a certificate end, after the answers to their open calls.
            self._listener.retire(STOP_TIMEOUT)
        self._proxy.peers = peers
        self._proxy.maintenance = maintenance
        self._listener.recheck()

    def start(self, port: int = PORT, host: str = "") -> int:
        """Listen; returns the port."""
        return self._listener.start(port, host)

    async def stop(self, grace: float = STOP_TIMEOUT) -> None:
        """Finish the open calls within ``grace`` seconds and close everything."""
        await self._listener.stop(grace)
        self.certificates.close()
        self._channel.close()
