"""KubePrism: every API server of the cluster behind one port on the loopback interface."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import trio

from talos.api.definitions.k8s_pb2 import (
    KubePrismConfigSpec,
    KubePrismEndpoint,
    KubePrismEndpointsSpec,
    KubePrismStatusesSpec,
)
from talos.config import contract
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.config.effective import kubernetes
from talos.kubernetes.balancer import Balancer, Endpoint
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler

LOCALHOST = "127.0.0.1"


class PrismEndpointsController(Reconciler):
    """MachineConfig, Member → KubePrismEndpoint: the node itself, the members, the cluster's endpoint."""

    name = "k8s.KubePrismEndpointsController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(kinds.MEMBER))
    outputs = (Output(kinds.KUBE_PRISM_ENDPOINT),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; none without Kubernetes."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            url = urlsplit((effective.cluster_endpoint(config) if config else "") or "")
            if config is None or not url.hostname:
                return
            found: dict[Endpoint, None] = {}
            if config.machine_type.is_control_plane:
                found[LOCALHOST, effective.api_server_port(config)] = None
            for member in await runtime.list(kinds.MEMBER):
                if member.spec.HasField("control_plane"):
                    port = member.spec.control_plane.api_server_port or contract.API_SERVER_PORT
                    for address in member.spec.addresses:
                        found[str(ip_address(address.ip[:16])), port] = None
            found[url.hostname, url.port or 443] = None
            spec = KubePrismEndpointsSpec(
                endpoints=[KubePrismEndpoint(host=host, port=port) for host, port in found]
            )
            await runtime.put(*ids.KUBE_PRISM_ENDPOINTS, spec)


class PrismConfigController(Reconciler):
    """MachineConfig, KubePrismEndpoint → KubePrismConfig; none when it is off."""

    name = "k8s.KubePrismConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.KUBE_PRISM_ENDPOINTS))
    outputs = (Output(kinds.KUBE_PRISM_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        endpoints = await runtime.get_or_none(*ids.KUBE_PRISM_ENDPOINTS)
        async with runtime.track_outputs():
            if config is None or endpoints is None or not (port := kubernetes.prism_port(config)):
                return
            spec = KubePrismConfigSpec(host=LOCALHOST, port=port, endpoints=endpoints.spec.endpoints)
            await runtime.put(*ids.KUBE_PRISM_CONFIG, spec)


class PrismController(Controller):
    """KubePrismConfig → a balancer → KubePrismStatus, one for each server that it has tried."""

    name = "k8s.KubePrismController"
    inputs = (Input(*ids.KUBE_PRISM_CONFIG),)
    outputs = (Output(kinds.KUBE_PRISM_STATUS),)

    def __init__(self) -> None:
        self._health: dict[Endpoint, bool] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Listen as configured; a change of the servers leaves connections alone."""

        def report(endpoint: Endpoint, healthy: bool) -> None:
            if self._health.get(endpoint) is not healthy:
                self._health[endpoint] = healthy
                runtime.queue_reconcile()

        balancer = Balancer(report)
        # Of this run: one that failed, for lack of the loopback interface, listens no more.
        listening: Endpoint | None = None
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                config = await runtime.get_or_none(*ids.KUBE_PRISM_CONFIG)
                address = (config.spec.host, config.spec.port) if config else None
                endpoints = [(one.host, one.port) for one in config.spec.endpoints] if config else []
                balancer.set_endpoints(endpoints)
                if address != listening:
                    scope.cancel()
                    listening, scope = address, trio.CancelScope()
                    if address:
                        await nursery.start(self._serve, balancer, address, scope)
                await self._show(runtime, endpoints)

    async def _serve(
        self,
        balancer: Balancer,
        address: Endpoint,
        scope: trio.CancelScope,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        with scope:
            host, port = address
            listeners = await trio.open_tcp_listeners(port, host=host)
            task_status.started()
            await trio.serve_listeners(balancer.serve, listeners)

    async def _show(self, runtime: ControllerRuntime, endpoints: Sequence[Endpoint]) -> None:
        async with runtime.track_outputs():
            for host, port in endpoints:
                if (healthy := self._health.get((host, port))) is not None:
                    name = f"{host}:{port}"
                    status = KubePrismStatusesSpec(host=name, healthy=healthy)
                    await runtime.put(kinds.KUBE_PRISM_STATUS, name, status)
