"""The one handler of all calls: authorizes it, chooses its route, and passes it on."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from talos.api.metadata import CALLER, READER
from talos.api.methods import methods
from talos.api.rpc import Code, RpcError
from talos.apid.caller import make_local_metadata, make_peer_metadata, roles_of
from talos.apid.fan_out import Upstream, forward_to_many
from talos.apid.peers import Peers
from talos.apid.routes import NODE, NODES, Local, OneToMany, OneToOne, Routing, choose_route, values_of
from talos.apid.wire import code_name
from talos.process.audit import STARTED, Audit
from talos.process.call_log import CallLog
from talos.rpc.client_quota import ClientQuota
from talos.rpc.handlers import CallEnd
from talos.rpc.http2.client import LocalChannel
from talos.rpc.port.call import PortCall
from talos.rpc.protocol import Metadata, Status
from talos.rpc.proxy.local import forward
from talos.rpc.proxy.raw import RawCall
from talos.rpc.proxy.roles import check_roles
from talos.system.logging import Log

DEBUG = "/machine.DebugService/ContainerRun"
"""Its caller is root on the node, who may prevent a record of its end: it is recorded at its begin, too."""


@dataclass(slots=True, kw_only=True)
class Proxy:
    """Passes calls on to this node's router and to other nodes.

    ``peers`` changes with the node's certificates; a worker, and a node without certificates,
    has none.
    """

    router: LocalChannel
    is_own: Callable[[str], bool]
    log: Log
    audit: Audit
    calls: CallLog
    reply_memory: ClientQuota
    peers: Peers | None = None
    maintenance: bool = False

    async def handle(self, call: PortCall) -> Status:
        """Answer one call, which is a line in the log; one that readers may not make is recorded, too."""
        began = time.monotonic()
        status = Status(code=Code.CANCELLED, message="cancelled")
        try:
            status = await self._answer(call)
        except RpcError as error:
            status = Status(code=error.code, message=error.message)
            raise
        finally:
            if self.calls.has_room():
                self._log_end(call, status, time.monotonic() - began)
        return status

    def _log_end(self, call: PortCall, status: Status, seconds: float) -> None:
        # Each is a stream here: nothing of it is parsed. A client's own word on who it is does not count.
        metadata = [pair for pair in call.metadata if pair[0] != CALLER]
        metadata.append((CALLER, call.peer.host))
        end = CallEnd(method=call.method, streams=True, status=status, seconds=seconds, metadata=metadata)
        self.calls.write(end)

    async def _answer(self, call: PortCall) -> Status:
        roles = roles_of(call.peer, call.metadata, anonymous=self.maintenance)
        known = methods().get(call.method)
        if known is not None and READER in known.roles:
            return await self._pass_on(call, roles)
        result = code_name(Code.CANCELLED)
        try:
            if call.method == DEBUG:
                check_roles(call.method, roles, maintenance=self.maintenance)
                self._record(call, roles, STARTED)
            status = await self._pass_on(call, roles)
            result = code_name(status.code)
        except RpcError as error:
            result = code_name(error.code)
            raise
        finally:
            self._record(call, roles, result)
        return status

    def _record(self, call: PortCall, roles: tuple[str, ...], result: str) -> None:
        self.audit.record(
            call.client,
            method=call.method,
            peer=call.peer.address,
            name=call.peer.common_name,
            roles=roles,
            nodes=values_of(call.metadata, NODE) + values_of(call.metadata, NODES),
            result=result,
        )

    async def _pass_on(self, call: PortCall, roles: tuple[str, ...]) -> Status:
        check_roles(call.method, roles, maintenance=self.maintenance)
        routing = Routing(
            enabled=not self.maintenance, may_forward=self.peers is not None, is_own=self.is_own
        )
        route = choose_route(call.method, call.metadata, routing)
        local = make_local_metadata(call.metadata, roles, call.peer)
        match route:
            case Local():
                return await self._to_router(call, local, call.client)
            case OneToOne(target):
                peer = make_peer_metadata(call.metadata, roles, call.authority)
                return await self._to_peer(target, call, peer, call.client)
            case OneToMany(targets):
                self.log.debug("one-to-many proxying is deprecated", method=call.method, nodes=targets)
                peer = make_peer_metadata(call.metadata, roles, call.authority)
                return await forward_to_many(
                    call,
                    [self._upstream(target, local, peer, call.client) for target in targets],
                    memory=self.reply_memory,
                    client=call.client,
                )

    def _upstream(self, target: str, local: Metadata, peer: Metadata, client: str) -> Upstream:
        async def run(call: RawCall) -> Status:
            if self.is_own(target):
                return await self._to_router(call, local, client)
            return await self._to_peer(target, call, peer, client)

        return Upstream(target=target, run=run)

    async def _to_router(self, call: RawCall, metadata: Metadata, client: str) -> Status:
        return await forward(
            call, self.router, metadata, to="routerd", memory=self.reply_memory, client=client
        )

    async def _to_peer(self, target: str, call: RawCall, metadata: Metadata, client: str) -> Status:
        if self.peers is None:
            raise RpcError(Code.PERMISSION_DENIED, "no request forwarding")
        async with self.peers.connection(target) as channel:
            return await forward(
                call, channel, metadata, to=f"node {target}", memory=self.reply_memory, client=client
            )
