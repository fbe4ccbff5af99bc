"""SiderolinkManagerController: the link to a management service."""

import math
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import override

import trio

from talos.api.definitions.siderolink_pb2 import ConfigSpec
from talos.api.rpc import DuplexTransport, RpcError, format_reason
from talos.api.service_endpoint import Endpoint, parse_endpoint
from talos.clusterd.roots import TrustedRoots
from talos.clusterd.siderolink.provision import (
    MAX_REPLY,
    Address,
    Enrollment,
    ProvisionedLink,
    check_endpoint,
    provision,
    shorten,
)
from talos.clusterd.siderolink.relay import LOOPBACK, MAX_MESSAGE, Relay
from talos.clusterd.siderolink.specs import (
    make_address,
    make_address_id,
    make_link,
    make_link_id,
    make_tunnel,
)
from talos.config.contract import SIDEROLINK_LINK, SIDEROLINK_TUNNEL_LINK, name_siderolink
from talos.pki.wireguard import is_key, make_private_key, make_public_key
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.rpc.port.remote import RemoteServer
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.system.version import get_version

ENDPOINT_TIMEOUT = 30.0
"""Seconds that an endpoint has for the first handshake, as upstream."""
RETRY_BACKOFF = Backoff(1.0, 60.0)
"""Seconds after a call that failed."""
RESOLVE_TIMEOUT = 10.0
"""Seconds."""
UUID_KEY = "0x0f"
"""META's, which overrides the firmware's UUID."""

type Connect = Callable[[RemoteServer], AbstractAsyncContextManager[DuplexTransport]]
type Resolve = Callable[[Endpoint], Awaitable[Address]]


async def resolve_endpoint(endpoint: Endpoint) -> Address:
    """The first address of a name. OSError."""
    with trio.move_on_after(RESOLVE_TIMEOUT):
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
        return ip_address(str(found[0][4][0]).partition("%")[0])
    raise TimeoutError(f"{endpoint.host} is not resolved within {RESOLVE_TIMEOUT:.0f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """What is in force: a reply, and which of its endpoints is tried, None when that one has no address."""

    reply: ProvisionedLink
    index: int
    endpoint: tuple[Address, int] | None


class SiderolinkManagerController(Controller):
    """SiderolinkConfig, the machine's UUID and token → LinkSpec, AddressSpec, as the service replies.

    It calls the service once; when no handshake comes for 30 s, the next endpoint of the reply is tried, and
    after the last one the service is called again. With WireGuard over gRPC the link's only endpoint is a
    relay of this daemon.
    """

    name = "siderolink.ManagerController"
    inputs = (
        Input(*ids.SIDEROLINK_CONFIG),
        Input(*ids.SIDEROLINK_STATUS),
        Input(*ids.SYSTEM_INFORMATION),
        Input(*ids.UNIQUE_MACHINE_TOKEN),
        Input(*ids.NETWORK_STATUS),
        Input(kinds.META_KEY, id=UUID_KEY),
        Input(kinds.LINK_STATUS, id=SIDEROLINK_LINK),
        Input(kinds.LINK_STATUS, id=SIDEROLINK_TUNNEL_LINK),
    )
    outputs = (
        Output(kinds.LINK_SPEC, shared=True, namespace=ids.NETWORK_CONFIG),
        Output(kinds.ADDRESS_SPEC, shared=True, namespace=ids.NETWORK_CONFIG),
        Output(kinds.SIDEROLINK_TUNNEL),
    )

    def __init__(self, connect: Connect, log: Log, resolve: Resolve = resolve_endpoint) -> None:
        self._connect, self._log, self._resolve = connect, log, resolve
        self._roots = TrustedRoots()
        self._private_key = ""
        self._enrollment: Enrollment | None = None
        self._link: _Link | None = None
        self._delays = iter(RETRY_BACKOFF)
        self._next = -math.inf
        """When the next endpoint or call is due, on trio's clock."""
        self._relay: Relay | None = None

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile after every change, and when an endpoint or a call is due, until cancelled."""
        due = math.inf
        async with trio.open_nursery() as self._relays:
            while True:
                with trio.move_on_at(due):
                    await runtime.wait_for_round()
                due = await self._reconcile(runtime)
                runtime.reset_backoff()

    async def _reconcile(self, runtime: ControllerRuntime) -> float:
        """Do what is due; when that is the next time without a change of the inputs, on trio's clock."""
        enrollment = await self._find_enrollment(runtime)
        if enrollment != self._enrollment:
            has_link, self._link = self._link is not None, None
            self._enrollment, self._delays, self._next = enrollment, iter(RETRY_BACKOFF), -math.inf
            self._end_relay()
            if has_link:
                # What the config names no more has no link for the length of a call.
                await self._write(runtime)
        if enrollment is None:
            await self._write(runtime)
            return math.inf
        made = await runtime.get_or_none(kinds.LINK_STATUS, name_siderolink(has_tunnel=enrollment.has_tunnel))
        if self._relay is not None and made is not None and made.spec.wireguard.listen_port:
            await self._relay.join(made.spec.wireguard.listen_port)
        if not await self._is_waiting(runtime, is_made=made is not None):
            return math.inf
        if trio.current_time() >= self._next:
            await self._step(runtime, enrollment)
        return self._next

    async def _find_enrollment(self, runtime: ControllerRuntime) -> Enrollment | None:
        config = await runtime.get_or_none(*ids.SIDEROLINK_CONFIG)
        token = await runtime.get_or_none(*ids.UNIQUE_MACHINE_TOKEN)
        if config is None or token is None:
            return None
        override_uuid = await runtime.get_or_none(kinds.META_KEY, UUID_KEY)
        information = await runtime.get_or_none(*ids.SYSTEM_INFORMATION)
        uuid = (override_uuid and override_uuid.spec.value) or (information and information.spec.uuid) or ""
        if not uuid:
            self._log.once(
                f"SideroLink needs the machine's UUID, which the firmware lacks: write META's {UUID_KEY}"
            )
            return None
        return _make_enrollment(config.spec, uuid, token.spec.token)

    async def _is_waiting(self, runtime: ControllerRuntime, *, is_made: bool) -> bool:
        """Whether a call or a handshake is missing, for which the node has what it needs."""
        if self._link is None:
            network = await runtime.get_or_none(*ids.NETWORK_STATUS)
            return network is not None and network.spec.address_ready
        status = await runtime.get_or_none(*ids.SIDEROLINK_STATUS)
        is_connected = status is not None and status.spec.connected
        if is_connected or not (is_made or self._link.endpoint is None):
            self._next = trio.current_time() + ENDPOINT_TIMEOUT
            return False
        return True

    async def _step(self, runtime: ControllerRuntime, enrollment: Enrollment) -> None:
        """Try the next endpoint, or call the service; another enrollment ends either at once."""
        link = self._link
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, runtime, enrollment, nursery.cancel_scope)
            if link is not None and link.index + 1 < len(link.reply.endpoints):
                await self._try_endpoint(link.reply, link.index + 1)
            else:
                await self._provision(runtime, enrollment)
            nursery.cancel_scope.cancel()
        if self._link is not None:
            await self._write(runtime)
        runtime.queue_reconcile()  # for the changes that the watch has taken

    async def _watch(
        self, runtime: ControllerRuntime, enrollment: Enrollment, scope: trio.CancelScope
    ) -> None:
        """Cancel when the inputs show another enrollment, or none."""
        while await self._find_enrollment(runtime) == enrollment:
            await runtime.wait_for_round()
        scope.cancel()

    async def _provision(self, runtime: ControllerRuntime, enrollment: Enrollment) -> None:
        """Call the service; what there is stays until it has replied."""
        server = f"{enrollment.server.host}:{enrollment.server.port}"
        self._log.info("configuring siderolink connection", server=server)
        key = await self._read_key(runtime, enrollment)
        try:
            async with self._open(enrollment.server, MAX_REPLY) as transport:
                reply = await provision(
                    transport, enrollment, public_key=make_public_key(key), version=get_version().tag
                )
        except (RpcError, ValueError) as error:
            self._log.once(f"SideroLink: {server}: {shorten(format_reason(error))}", key="provision")
            self._next = trio.current_time() + next(self._delays)
            return
        self._delays = iter(RETRY_BACKOFF)
        self._log.forget("provision")
        if enrollment.has_tunnel:
            await self._begin_relay(enrollment.server, reply)
        else:
            await self._try_endpoint(reply, 0)
        self._log.info(
            "siderolink connection configured", node=str(reply.node_address), peer=str(reply.server_address)
        )

    @asynccontextmanager
    async def _open(self, server: Endpoint, max_message: int) -> AsyncGenerator[DuplexTransport]:
        """To the service; messages of so many bytes are taken. RpcError."""
        context = None if server.is_plain else await self._roots.read_context()
        remote = RemoteServer(host=server.host, port=server.port, context=context, max_message=max_message)
        async with self._connect(remote) as transport:
            yield transport

    async def _begin_relay(self, server: Endpoint, reply: ProvisionedLink) -> None:
        """Carry the link's packets to the service from now on, in place of an earlier relay."""
        self._end_relay()
        self._relay = Relay(partial(self._open, server, MAX_MESSAGE), reply.stream_peer, self._log)
        port = await self._relay.bind()
        self._relays.start_soon(self._relay.run)
        self._link = _Link(reply=reply, index=0, endpoint=(LOOPBACK, port))
        self._next = trio.current_time() + ENDPOINT_TIMEOUT

    def _end_relay(self) -> None:
        if self._relay is not None:
            self._relay.end()
            self._relay = None

    async def _try_endpoint(self, reply: ProvisionedLink, index: int) -> None:
        chosen = reply.endpoints[index]
        endpoint: tuple[Address, int] | None = None
        try:
            address = await self._resolve(chosen)
            check_endpoint(address)
            endpoint = address, chosen.port
        except (OSError, ValueError) as error:
            self._log.once(f"SideroLink: {shorten(f'{chosen.host}: {error}')}", key="endpoint")
        self._link = _Link(reply=reply, index=index, endpoint=endpoint)
        self._next = trio.current_time() + ENDPOINT_TIMEOUT

    async def _read_key(self, runtime: ControllerRuntime, enrollment: Enrollment) -> str:
        """The link's own key: new at each boot, the same when this daemon is replaced."""
        if not self._private_key:
            link_id = make_link_id(name_siderolink(has_tunnel=enrollment.has_tunnel))
            old = await runtime.get_or_none(kinds.LINK_SPEC, link_id, namespace=ids.NETWORK_CONFIG)
            kept = old.spec.wireguard.private_key if old else ""
            self._private_key = kept if is_key(kept) else make_private_key()
        return self._private_key

    async def _write(self, runtime: ControllerRuntime) -> None:
        async with runtime.track_outputs():
            link = self._link
            if link is None or link.endpoint is None:
                return
            name = name_siderolink(has_tunnel=bool(link.reply.stream_peer))
            spec = make_link(name, self._private_key, link.reply, link.endpoint)
            await runtime.put(kinds.LINK_SPEC, make_link_id(name), spec, namespace=ids.NETWORK_CONFIG)
            await runtime.put(
                kinds.ADDRESS_SPEC,
                make_address_id(name, link.reply),
                make_address(name, link.reply),
                namespace=ids.NETWORK_CONFIG,
            )
            if not link.reply.stream_peer:
                return
            config = await runtime.get_or_none(*ids.SIDEROLINK_CONFIG)
            if config is not None:
                tunnel = make_tunnel(name, config.spec.api_endpoint, link.reply)
                await runtime.put(*ids.SIDEROLINK_TUNNEL, tunnel)


def _make_enrollment(config: ConfigSpec, uuid: str, token: str) -> Enrollment:
    endpoint = parse_endpoint(config.host)
    return Enrollment(
        server=Endpoint(host=endpoint.host, port=endpoint.port, is_plain=config.insecure),
        has_tunnel=config.tunnel,
        node_uuid=uuid,
        join_token=config.join_token,
        unique_token=token,
    )
