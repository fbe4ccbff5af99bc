"""DiscoveryServiceController: publishes this node through the discovery services, and reads the others."""

import ipaddress
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from talos.api.addresses import make_host_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec, ConfigSpec, ServiceEndpoint
from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.api.rpc import RpcError, Transport
from talos.clusterd.controllers.members import RAW_NAMESPACE
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.client import (
    KEEPALIVE,
    MAX_MESSAGE,
    ClientSettings,
    DiscoveryClient,
    is_endpoint,
)
from talos.clusterd.discovery.payload import merge_affiliate
from talos.clusterd.roots import TrustedRoots
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.rpc.bridge import Bridge
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import RemoteServer
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.version import get_version

ROUND_INTERVAL = 0.25
"""Seconds between rounds: what a server sends in quick succession is written at once."""

SOURCE = "service/"
"""Before the ids of what is written."""

CLUSTER_NAMESPACE = "cluster"
PUBLIC_ADDRESS = "service"
"""The AddressStatus with the address that a server sees this node under."""

LEAVE_TIMEOUT = 2.0
"""Seconds in which a node that is being reset leaves its cluster."""


class DiscoveryServiceController(Controller):
    """DiscoveryConfig, Identity, MachineStatus, own Affiliate → Affiliate of the source ``service``.

    It also publishes KubeSpanEndpoints, and writes under which address the node is seen.
    """

    name = "cluster.DiscoveryServiceController"
    inputs = (
        Input(*ids.DISCOVERY_CONFIG),
        Input(*ids.IDENTITY),
        Input(*ids.MACHINE_STATUS),
        Input(kinds.AFFILIATE),
        Input(kinds.KUBE_SPAN_ENDPOINT),
    )
    outputs = (
        Output(kinds.AFFILIATE, shared=True, namespace=RAW_NAMESPACE),
        Output(kinds.ADDRESS_STATUS, shared=True, namespace=CLUSTER_NAMESPACE),
    )

    def __init__(self, bridge: Bridge, log: Log) -> None:
        self._bridge = bridge
        self._log = log
        self._roots = TrustedRoots()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Run a client for every configured service, until cancelled."""
        running: dict[ClientSettings, tuple[DiscoveryClient, trio.CancelScope]] = {}
        try:
            await self._follow(runtime, running)
        finally:
            # A reset ends this daemon in the next moment.
            with trio.CancelScope(shield=True), trio.move_on_after(LEAVE_TIMEOUT):
                await self._leave_if_reset(runtime, [client for client, _ in running.values()])

    async def _follow(
        self,
        runtime: ControllerRuntime,
        running: dict[ClientSettings, tuple[DiscoveryClient, trio.CancelScope]],
    ) -> None:
        # The members of a cluster are not gone because this daemon was restarted, or this controller failed.
        before = await _read_written(runtime)
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                wanted = await self._find_wanted(runtime)
                for settings in [*running]:
                    if settings not in wanted:
                        running.pop(settings)[1].cancel()
                for settings in wanted:
                    if settings not in running:
                        client = self._make_client(settings, runtime, before)
                        running[settings] = client, await nursery.start(_run_client, client)
                before = {}  # of these services: what is configured later begins with nothing
                clients = [client for client, _ in running.values()]
                await self._publish(runtime, clients)
                await self._write(runtime, clients)
                runtime.reset_backoff()
                await trio.sleep(ROUND_INTERVAL)

    async def _find_wanted(self, runtime: ControllerRuntime) -> list[ClientSettings]:
        """The settings of each client that has to run; none while discovery is off or can't work."""
        discovery = await runtime.get_or_none(*ids.DISCOVERY_CONFIG)
        identity = await runtime.get_or_none(*ids.IDENTITY)
        if discovery is None or identity is None or not discovery.spec.registry_service_enabled:
            return []
        try:
            PayloadCipher(discovery.spec.service_encryption_key)
        except UserError as error:
            self._log.once(f"discovery is off: {error}", key="secret", level="error")
            return []
        wanted: list[ClientSettings] = []
        for one in discovery.spec.service_endpoints:
            if is_endpoint(one.endpoint):
                wanted.append(_make_settings(discovery.spec, one, identity.spec.node_id))
            else:
                self._log.once(f"the discovery service {one.endpoint!r} is no host and port", level="error")
        return wanted

    def _make_client(
        self, settings: ClientSettings, runtime: ControllerRuntime, before: dict[str, AffiliateSpec]
    ) -> DiscoveryClient:
        @asynccontextmanager
        async def connect(endpoint: str) -> AsyncGenerator[Transport]:
            host, _, port = endpoint.rpartition(":")
            context = None
            if not settings.is_plain:
                context = await self._roots.read_context()
            server = RemoteServer(
                host=host.strip("[]"),
                port=int(port),
                context=context,
                max_message=MAX_MESSAGE,
                keepalive=KEEPALIVE,
            )
            async with open_remote(self._bridge, server) as transport:
                yield transport

        return DiscoveryClient(settings, connect, self._log, runtime.queue_reconcile, before)

    async def _publish(self, runtime: ControllerRuntime, clients: list[DiscoveryClient]) -> None:
        """Give the clients this node as it is now; a node that is being reset leaves its cluster."""
        identity = await runtime.get_or_none(*ids.IDENTITY)
        status = await runtime.get_or_none(*ids.MACHINE_STATUS)
        local = identity and await runtime.get_or_none(kinds.AFFILIATE, identity.spec.node_id)
        seen = [one.spec for one in await runtime.list(kinds.KUBE_SPAN_ENDPOINT)]
        others = {one.affiliate_id: one.endpoint for one in seen}
        is_leaving = status is not None and status.spec.stage == enums.MACHINE_STAGE_RESETTING
        for client in clients:
            if is_leaving:
                client.leave()
            elif local is not None:
                client.publish(local.spec, others)

    async def _leave_if_reset(self, runtime: ControllerRuntime, clients: list[DiscoveryClient]) -> None:
        """Withdraw this node when it is being reset; the status may arrive just after the end."""
        await trio.sleep(ROUND_INTERVAL)
        status = await runtime.get_or_none(*ids.MACHINE_STATUS)
        if status is None or status.spec.stage != enums.MACHINE_STAGE_RESETTING:
            return
        for client in clients:
            try:
                await client.withdraw()
            except RpcError as error:
                self._log.warning("the discovery service still has this node", reason=str(error))

    async def _write(self, runtime: ControllerRuntime, clients: list[DiscoveryClient]) -> None:
        """Write the affiliates that the services have, merged when there are several.

        A service that has not answered yet has those of before, which count while none has answered.
        """
        found: dict[str, AffiliateSpec] = {}
        answered = [client for client in clients if client.has_answered]
        for client in answered or clients:
            for node_id, spec in client.affiliates.items():
                if node_id in found:
                    merge_affiliate(found[node_id], spec)
                else:
                    found[node_id] = AffiliateSpec()
                    found[node_id].CopyFrom(spec)
        async with runtime.track_outputs(kinds.AFFILIATE):
            for node_id, spec in found.items():
                await runtime.put(kinds.AFFILIATE, f"{SOURCE}{node_id}", spec, namespace=RAW_NAMESPACE)
        public = next((client.public_address for client in clients if client.public_address), b"")
        if public:
            address = AddressStatusSpec(address=make_host_prefix(ipaddress.ip_address(public)))
            await runtime.put(kinds.ADDRESS_STATUS, PUBLIC_ADDRESS, address, namespace=CLUSTER_NAMESPACE)


async def _read_written(runtime: ControllerRuntime) -> dict[str, AffiliateSpec]:
    """What this controller has written in the past, by the node's id."""
    written = await runtime.list(kinds.AFFILIATE, namespace=RAW_NAMESPACE)
    return {one.id.removeprefix(SOURCE): one.spec for one in written if one.id.startswith(SOURCE)}


def _make_settings(discovery: ConfigSpec, endpoint: ServiceEndpoint, node_id: str) -> ClientSettings:
    return ClientSettings(
        endpoint=endpoint.endpoint,
        is_plain=endpoint.insecure,
        cluster_id=discovery.service_cluster_id,
        node_id=node_id,
        key=discovery.service_encryption_key,
        version=get_version().tag,
    )


async def _run_client(
    client: DiscoveryClient, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await client.run()
