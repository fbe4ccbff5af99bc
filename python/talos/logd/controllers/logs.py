"""Logs that leave the node: of the services, and of the kernel."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import override

import trio

from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.logd.delivery import Delivery
from talos.logd.destination import Destination, parse_destination
from talos.logd.feed import Feed
from talos.logd.tasks import TaskSet
from talos.resource import ids
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.logging import Log

MAX_DESTINATIONS = 16
"""Of each kind of log; each takes a stream of PID 1 and up to half a megabyte."""

type Tags = tuple[tuple[str, str], ...]
type Key = tuple[Destination, Tags]


class Deliveries:
    """All deliveries of this process, and what feeds them."""

    def __init__(self, feed: Feed, log: Log) -> None:
        self.feed = feed
        self.log = log
        self._open: set[Delivery] = set()

    async def run(self, destination: Destination, send: Callable[[Delivery], Awaitable[None]]) -> None:
        """Deliver what ``send`` puts until cancelled."""
        delivery = Delivery(destination, self.log)
        self._open.add(delivery)
        self.log.info("logs are sent", destination=str(destination))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(delivery.run)
                await send(delivery)
                nursery.cancel_scope.cancel()
        finally:
            self._open.discard(delivery)

    async def drain(self, *, quiet: float, limit: float) -> None:
        """Wait until all have delivered what there is, at most ``limit`` seconds."""
        with trio.move_on_after(limit):
            async with trio.open_nursery() as nursery:
                for delivery in self._open:
                    nursery.start_soon(delivery.wait_until_idle, quiet)

    def parse(self, urls: Sequence[tuple[str, Mapping[str, str]]]) -> list[Key]:
        """The destinations, each once; what is none, and what is too many, is logged."""
        found: dict[Key, None] = {}
        for url, tags in urls:
            try:
                found[parse_destination(url), tuple(sorted(tags.items()))] = None
            except ValueError as error:
                self.log.once(f"a destination of logs is left out: {error}")
        if len(found) > MAX_DESTINATIONS:
            self.log.once(f"{len(found)} destinations of logs, only the first {MAX_DESTINATIONS} are used")
        return list(found)[:MAX_DESTINATIONS]


class LogDeliveryController(Controller):
    """MachineConfig → the lines of all services to ``machine.logging.destinations``.

    From a control plane node the records of the API server's calls go there, too.
    """

    name = "runtime.LogDeliveryController"
    inputs = (Input(*ids.MACHINE_CONFIG),)

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        async with trio.open_nursery() as nursery:
            tasks = TaskSet[Key](nursery)
            async for _ in runtime.events():
                config = await read_config(runtime)
                found = effective.log_destinations(config) if config else ()
                urls = [(item.endpoint or "", item.extra_tags or {}) for item in found]
                has_audit = bool(config and config.machine_type.is_control_plane)
                keys = self._deliveries.parse(urls)
                tasks.follow({key: self._make_task(key, has_audit=has_audit) for key in keys})
                runtime.reset_backoff()

    def _make_task(self, key: Key, *, has_audit: bool) -> Callable[[], Awaitable[None]]:
        destination, tags = key
        deliveries = self._deliveries

        async def send(delivery: Delivery) -> None:
            feed = deliveries.feed
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed.send_logs, delivery, dict(tags))
                if has_audit:
                    nursery.start_soon(feed.send_kubernetes_audit, delivery, dict(tags))

        async def run() -> None:
            await deliveries.run(destination, send)

        return run


class KmsgLogDeliveryController(Controller):
    """KmsgLogConfig → the records of the kernel's log to its destinations."""

    name = "runtime.KmsgLogDeliveryController"
    inputs = (Input(*ids.KMSG_LOG_CONFIG),)

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        async with trio.open_nursery() as nursery:
            tasks = TaskSet[Destination](nursery)
            async for _ in runtime.events():
                config = await runtime.get_or_none(*ids.KMSG_LOG_CONFIG)
                urls = (
                    [(url.full_path, dict[str, str]()) for url in config.spec.destinations] if config else []
                )
                found = [destination for destination, _ in self._deliveries.parse(urls)]
                tasks.follow({destination: self._make_task(destination) for destination in found})
                runtime.reset_backoff()

    def _make_task(self, destination: Destination) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self._deliveries.run(destination, self._deliveries.feed.send_kernel)

        return run
