"""The nodes of the fleet page: looked at in turn, with the last hour's figures and what has changed."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from talos.talosctl.web.view import View
from talos.upgrade.state import Phase

MAX_CONCURRENT = 16
"""Nodes that are looked at at the same time."""
MIN_INTERVAL, MAX_INTERVAL = 3.0, 30.0
"""Seconds between two checks of a node: longer with many nodes, the longest while no page is open."""
INTERVAL_PER_NODE = 0.06
POINT_PERIOD = 30.0
"""Seconds that a point of a plot stands for."""
POINTS = 120
"""Of a plot: the last hour."""
PLOTS = ("busy", "memory", "disk", "network")
"""Numbers of a view that are kept for an hour."""
MAX_EVENTS = 200
MEMBERS_INTERVAL = 60.0
"""Seconds between two questions who is a member."""

type FetchView = Callable[[str, View | None], Awaitable[View]]
type FindNodes = Callable[[], Awaitable[Sequence[str]]]


@dataclass(slots=True)
class _Entry:
    view: View
    serial: int = 0
    began: float = 0.0
    points: deque[Sequence[int]] = field(default_factory=lambda: deque[Sequence[int]](maxlen=POINTS))

    def document(self) -> dict[str, Any]:
        """The view with its plots, the oldest point first."""
        plots = {name: [point[at] for point in self.points] for at, name in enumerate(PLOTS)}
        return {**self.view.document(), "plots": plots}


@dataclass(slots=True)
class FleetWatch:
    """Looks at nodes until it is cancelled. What changes has a number, by which readers go on."""

    fetch_view: FetchView
    find_nodes: FindNodes
    cluster: str = ""
    _entries: dict[str, _Entry] = field(default_factory=dict[str, _Entry])
    _events: deque[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: deque[tuple[int, dict[str, Any]]](maxlen=MAX_EVENTS)
    )
    _serial: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _readers: int = 0
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Look at all nodes again and again, and at those that join."""
        async with asyncio.TaskGroup() as group:
            free = asyncio.Semaphore(MAX_CONCURRENT)
            while True:
                for node in await self.find_nodes():
                    if node not in self._entries:
                        self._entries[node] = _Entry(View(node=node, error="not looked at yet"))
                        group.create_task(self._follow(node, free))
                await asyncio.sleep(MEMBERS_INTERVAL)

    async def _follow(self, node: str, free: asyncio.Semaphore) -> None:
        is_first = True
        while True:
            before = self._entries[node].view
            async with free:
                now = await self.fetch_view(node, None if is_first else before)
            self.take(now, None if is_first else before)
            is_first = False
            await self._pause()

    async def _pause(self) -> None:
        if self._readers:
            interval = len(self._entries) * INTERVAL_PER_NODE
            await asyncio.sleep(min(max(interval, MIN_INTERVAL), MAX_INTERVAL))
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_INTERVAL):
                    await self._opened.wait()

    @contextmanager
    def reading(self) -> Generator[None]:
        """While a page is open."""
        self._readers += 1
        self._opened.set()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._opened.clear()

    def take(self, now: View, before: View | None) -> None:
        """Keep a look, and what is another than before."""
        self._serial += 1
        entry = self._entries.setdefault(now.node, _Entry(now))
        entry.view, entry.serial, clock = now, self._serial, time.monotonic()
        point = [round(value) for value in (now.busy, now.memory, now.disk, now.network)]
        # The first look has the mean since the node's start.
        is_due = not entry.points or clock - entry.began >= POINT_PERIOD
        if before and not now.error and is_due:
            entry.began = clock
            entry.points.append(point)
        for kind, text in find_changes(before, now) if before else ():
            event = {"at": round(time.time()), "node": now.name or now.node, "kind": kind, "text": text}
            self._events.append((self._serial, event))
        self._changed.set()

    def has(self, node: str) -> bool:
        """Whether it is one of the nodes."""
        return node in self._entries

    def has_service(self, node: str, name: str) -> bool:
        """Whether a node has a service of this name."""
        return self.has(node) and any(one.name == name for one in self._entries[node].view.services)

    async def wait(self, seen: int) -> None:
        """Wait until there is something newer."""
        while self._serial <= seen:
            self._changed.clear()
            await self._changed.wait()

    def since(self, seen: int) -> tuple[int, dict[str, Any]]:
        """The newest number, and what is newer than the one that was seen."""
        nodes = [entry.document() for entry in self._entries.values() if entry.serial > seen]
        events = [event for serial, event in self._events if serial > seen]
        total = len(self._entries)
        return self._serial, {
            "all": seen == 0,
            "cluster": self.cluster,
            "total": total,
            "nodes": nodes,
            "events": events,
        }


def find_changes(before: View, now: View) -> Iterator[tuple[str, str]]:
    """What is another, each as ``good``, ``bad`` or ``note`` with a text."""
    if now.error:
        if not before.error:
            yield "bad", f"does not answer: {now.error}"
        return
    if before.error:
        yield "good", "answers"
    if before.version and now.version != before.version:
        yield "note", f"runs {now.version}, before {before.version}"
    if now.stage != before.stage and before.stage:
        yield "note", f"is {now.stage}"
    if now.upgrade != before.upgrade:
        yield from _describe_upgrade(now)
    yield from _find_health(before, now)
    yield from _find_etcd(before, now)


def _describe_upgrade(now: View) -> Iterator[tuple[str, str]]:
    upgrade = now.upgrade
    match upgrade.phase:
        case Phase.STAGED:
            yield "note", f"{upgrade.version} is in slot {upgrade.slot} and boots next"
        case Phase.TRIAL:
            yield "note", f"{upgrade.version} is on trial in slot {upgrade.slot}"
        case Phase.BLESSED:
            yield "good", f"{upgrade.version} passed its self-check"
        case Phase.REVERTED:
            yield "bad", f"{upgrade.version} was reverted: {upgrade.reason}"
        case Phase.IDLE:
            return


def _find_etcd(before: View, now: View) -> Iterator[tuple[str, str]]:
    if now.etcd == "leader" and before.etcd not in ("", "leader"):
        yield "note", "leads etcd"
    for alarm in now.alarms:
        if alarm not in before.alarms:
            yield "bad", f"etcd: {alarm}"


def _find_health(before: View, now: View) -> Iterator[tuple[str, str]]:
    earlier = {one.name: one.is_good for one in before.services}
    for service in now.services:
        if earlier.get(service.name, service.is_good) != service.is_good:
            text = f"service {service.name}"
            reason = service.message or service.state
            yield ("good", f"{text} is healthy") if service.is_good else ("bad", f"{text}: {reason}")
    # While a node boots it does not have what Kubernetes finds.
    if now.kubernetes not in ("", before.kubernetes):
        yield "good" if now.kubernetes == "Ready" else "bad", f"Kubernetes finds it {now.kubernetes}"
