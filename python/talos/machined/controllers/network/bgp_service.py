"""bgpd, which runs while there is an instance of BGP."""

from typing import override

from talos.machined.node.ports.services import Services
from talos.process.daemons import BGPD
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler

ROUTES = "bgp/"
"""What the ids of its routes begin with."""


class BGPServiceController(Reconciler):
    """BGPInstanceConfig → bgpd runs, or not: until it has removed what it has written."""

    name = "network.BGPServiceController"
    inputs = (
        Input(kinds.BGP_INSTANCE_CONFIG),
        Input(kinds.BGP_PEER_STATUS),
        Input(kinds.ROUTE_SPEC, namespace=ids.NETWORK_CONFIG),
    )

    def __init__(self, services: Services) -> None:
        self._services = services
        self._is_started = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        is_wanted = bool(await runtime.list(kinds.BGP_INSTANCE_CONFIG))
        if is_wanted and not self._is_started:
            self._services.start_soon([BGPD.name])
            self._is_started = True
        elif self._is_started and not is_wanted and not await self._has_output(runtime):
            await self._services.halt(BGPD.name)
            self._is_started = False

    @staticmethod
    async def _has_output(runtime: ControllerRuntime) -> bool:
        if await runtime.list(kinds.BGP_PEER_STATUS):
            return True
        routes = await runtime.list(kinds.ROUTE_SPEC, namespace=ids.NETWORK_CONFIG)
        return any(route.id.startswith(ROUTES) for route in routes)
