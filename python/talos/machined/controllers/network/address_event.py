"""AddressEvent: the machine's host name and addresses, for subscribers of its events."""

from collections.abc import Callable

import trio
from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.resource import ids
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.resource.yaml.values import ip_to_text

REPEAT = 600.0
"""Seconds after which the same addresses are published again, for subscribers that connect later."""


class AddressEventController(Controller):
    """NodeAddress and HostnameStatus → an event for every change."""

    name = "network.AddressEventController"
    inputs = (Input(*ids.NODE_ADDRESS_CURRENT), Input(*ids.HOSTNAME_STATUS))

    def __init__(self, publish: Callable[[Message], object]) -> None:
        self._publish = publish
        self._last: pb.AddressEvent | None = None

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the inputs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._repeat)
            async for _ in runtime.events():
                await self._update(runtime)

    async def _update(self, runtime: ControllerRuntime) -> None:
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
        if addresses is None or (self._last is None and not addresses.spec.addresses):
            return
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        event = pb.AddressEvent(
            hostname=hostname.spec.hostname if hostname else "",
            addresses=[ip_to_text(prefix.ip) for prefix in addresses.spec.addresses],
        )
        if event != self._last:
            self._last = event
            self._publish(event)

    async def _repeat(self) -> None:
        while True:
            await trio.sleep(REPEAT)
            if self._last is not None:
                self._publish(self._last)
