"""The supervisor, as the API sees it."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class ServiceState(enum.Enum):
    """The state of a service; the values are the API's texts."""

    INITIALIZED = "Initialized"
    PREPARING = "Preparing"
    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    FINISHED = "Finished"
    FAILED = "Failed"
    SKIPPED = "Skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHealth:
    """What the last health check found. ``last_change`` is in seconds since the epoch."""

    unknown: bool = True
    healthy: bool = False
    last_message: str = ""
    last_change: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEvent:
    """One change of a service's state. ``time`` is in seconds since the epoch."""

    message: str
    state: ServiceState
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """A service as the API shows it; ``events`` oldest first, ``pid`` 0 when no process runs.

    ``is_daemon``: it is one of the system's own daemons, which existing clients expect as containers
    of the namespace ``system``. ``group`` is its control group.
    """

    id: str
    state: ServiceState
    health: ServiceHealth
    events: tuple[ServiceEvent, ...]
    pid: int = 0
    is_daemon: bool = False
    group: str = ""


class UnknownServiceError(Exception):
    """No service has this id."""


class ServiceRefusedError(Exception):
    """This service may not be started, stopped or restarted through the API."""


class Services(Protocol):
    """The supervisor, as the API sees it."""

    def list(self) -> Sequence[ServiceStatus]:
        """Every service, ordered by id."""
        ...

    def get(self, id: str) -> ServiceStatus:
        """One service; UnknownServiceError."""
        ...

    async def start(self, id: str) -> None:
        """Start a service on a user's behalf; UnknownServiceError, ServiceRefusedError."""
        ...

    async def stop(self, id: str) -> None:
        """Stop a service on a user's behalf; UnknownServiceError, ServiceRefusedError."""
        ...

    async def restart(self, id: str) -> None:
        """Stop and start a service on a user's behalf; UnknownServiceError, ServiceRefusedError."""
        ...

    async def terminate(self, id: str) -> None:
        """Have a service's process end; it is started again. UnknownServiceError."""
        ...

    async def halt(self, id: str) -> None:
        """Stop a service for the system itself, whether or not users may. UnknownServiceError."""
        ...

    def record(self, id: str, message: str) -> None:
        """Add an event to a service, which stays in its state. UnknownServiceError."""
        ...

    async def probe(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Check services now, all at once and beside their own schedule; UnknownServiceError.

        The failures by service. It takes twice the longest of their timeouts at most, which is etcd's: 30 s.
        """
        ...

    def start_soon(self, ids: Iterable[str]) -> None:
        """Start services for the system itself, those that don't run. UnknownServiceError."""
        ...
