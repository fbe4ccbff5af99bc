"""A service's states: one enum, and which may follow which."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from talos.api.machine import machine_pb2 as pb
from talos.api.timestamps import make_timestamp
from talos.machined.node.ports.services import ServiceEvent, ServiceHealth, ServiceState, ServiceStatus
from talos.system.wakeup import Signal

S = ServiceState
FOLLOWERS: Mapping[ServiceState, frozenset[ServiceState]] = {
    S.INITIALIZED: frozenset({S.STARTING, S.SKIPPED}),
    S.STARTING: frozenset({S.WAITING, S.PREPARING, S.SKIPPED, S.STOPPING, S.FAILED}),
    S.WAITING: frozenset({S.WAITING, S.PREPARING, S.STOPPING, S.FAILED}),
    S.PREPARING: frozenset({S.PREPARING, S.RUNNING, S.WAITING, S.STOPPING, S.FAILED}),
    S.RUNNING: frozenset({S.RUNNING, S.WAITING, S.STOPPING, S.FINISHED, S.FAILED}),
    S.STOPPING: frozenset({S.FINISHED, S.FAILED}),
    S.FINISHED: frozenset({S.STARTING}),
    S.FAILED: frozenset({S.STARTING}),
    S.SKIPPED: frozenset({S.STARTING}),
}
"""RUNNING, PREPARING and WAITING may be repeated with another message."""
MAX_EVENTS = 64
"""Events kept of each service."""


class Lifecycle:
    """The state of one service. ``report`` is called with every step."""

    def __init__(
        self,
        id: str,
        *,
        has_health: bool,
        report: Callable[["Lifecycle"], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.id = id
        self.state = ServiceState.INITIALIZED
        self.health = ServiceHealth()
        self.pid = 0
        self._has_health = has_health
        self._report = report
        self._now = now
        self._events: deque[ServiceEvent] = deque(maxlen=MAX_EVENTS)
        self._changed = Signal()

    def step(self, state: ServiceState, message: str) -> None:
        """Go to a state that may follow the present one."""
        assert state in FOLLOWERS[self.state], f"{self.id}: {state.value} does not follow {self.state.value}"
        self.state = state
        if state is not ServiceState.RUNNING:
            self.pid = 0
            self.health = ServiceHealth(last_change=self.health.last_change)
        self.record(message)

    def set_health(self, *, healthy: bool, message: str) -> None:
        """Note what a health check has found."""
        before = self.health
        if not before.unknown and before.healthy == healthy and before.last_message == message:
            return
        changed = before.unknown or before.healthy != healthy
        self.health = ServiceHealth(
            unknown=False,
            healthy=healthy,
            last_message=message,
            last_change=self._now() if changed else before.last_change,
        )
        if changed:
            self.record("Health check successful" if healthy else f"Health check failed: {message}")

    def record(self, message: str) -> None:
        """Add an event."""
        self._events.append(ServiceEvent(message=message, state=self.state, time=self._now()))
        self._changed.notify()
        self._report(self)

    @property
    def is_up(self) -> bool:
        """Whether services that depend on it may start."""
        return self.state is ServiceState.RUNNING and (not self._has_health or self.health.healthy)

    @property
    def has_ended(self) -> bool:
        """Whether it does not run, and does not begin unless it is started."""
        return self.state in (S.INITIALIZED, S.FINISHED, S.FAILED, S.SKIPPED)

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or will not be."""
        return self.is_up or self.state in (ServiceState.SKIPPED, ServiceState.FINISHED)

    @property
    def last_message(self) -> str:
        """The message of the last step."""
        return self._events[-1].message if self._events else ""

    async def wait(self, predicate: Callable[["Lifecycle"], bool]) -> None:
        """Wait until something is true of it."""
        while not predicate(self):
            await self._changed.wait()

    def snapshot(self) -> ServiceStatus:
        """The service as the API shows it."""
        return ServiceStatus(
            id=self.id, state=self.state, health=self.health, events=tuple(self._events), pid=self.pid
        )


def make_health(health: ServiceHealth) -> pb.ServiceHealth:
    """A service's health as the API has it."""
    return pb.ServiceHealth(
        unknown=health.unknown,
        healthy=health.healthy,
        last_message=health.last_message,
        last_change=make_timestamp(health.last_change),
    )
