"""SiderolinkStatus: whether the management service is reached over its link."""

import math
import time
from collections.abc import Callable
from typing import override

import trio

from talos.api.definitions.siderolink_pb2 import StatusSpec
from talos.config.contract import SIDEROLINK_LINK, SIDEROLINK_TUNNEL_LINK, name_siderolink
from talos.networkd.wireguard import PEER_DOWN_INTERVAL
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.net.links import LinkError, Links

INTERVAL = 30.0
"""Seconds between looks at a link that is connected: the kernel reports no handshake."""
CONNECTING_INTERVAL = 5.0
"""Seconds between looks at one that is not."""


class SiderolinkStatusController(Controller):
    """SiderolinkConfig, the kernel's link → SiderolinkStatus, while there is a config."""

    name = "siderolink.StatusController"
    inputs = (
        Input(*ids.SIDEROLINK_CONFIG),
        Input(kinds.LINK_STATUS, id=SIDEROLINK_LINK),
        Input(kinds.LINK_STATUS, id=SIDEROLINK_TUNNEL_LINK),
    )
    outputs = (Output(kinds.SIDEROLINK_STATUS),)

    def __init__(self, links: Links, clock: Callable[[], float] = time.time) -> None:
        self._links = links
        self._clock = clock
        self._interval = math.inf

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile after every change, and while there is a link after every interval, until cancelled."""
        while True:
            with trio.move_on_after(self._interval):
                await runtime.wait_for_round()
            await self._reconcile(runtime)
            runtime.reset_backoff()

    async def _reconcile(self, runtime: ControllerRuntime) -> None:
        config = await runtime.get_or_none(*ids.SIDEROLINK_CONFIG)
        self._interval = math.inf
        async with runtime.track_outputs():
            if config is None:
                return
            name = name_siderolink(has_tunnel=config.spec.tunnel)
            link = await runtime.get_or_none(kinds.LINK_STATUS, name)
            is_connected = link is not None and await self._is_connected(name)
            if link is not None:
                self._interval = INTERVAL if is_connected else CONNECTING_INTERVAL
            status = StatusSpec(
                host=config.spec.host.rpartition(":")[0].strip("[]"),
                connected=is_connected,
                link_name=name,
                grpc_tunnel=config.spec.tunnel,
            )
            await runtime.put(*ids.SIDEROLINK_STATUS, status)

    async def _is_connected(self, link: str) -> bool:
        try:
            state = await self._links.wireguard(link)
        except LinkError:
            return False
        now = self._clock()
        return any(now - one.last_handshake < PEER_DOWN_INTERVAL for one in state.traffic.values())
