"""The interfaces of PID 1 that the machine API uses.

This is the seam between the API with the State on one side and the supervisor on the other.
The handlers see nothing of the supervisor but these protocols, so the two sides could be
put into two processes without touching a handler.
"""

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from google.protobuf.message import Message

from talos.api.rpc import DuplexTransport
from talos.disks.reset import ResetPlan
from talos.machined.node.etcd import EtcdControl
from talos.resource.state import State
from talos.rpc.port.remote import RemoteServer
from talos.system.cgroups import Groups
from talos.system.files import Files
from talos.system.logging import Log
from talos.system.process import Finished
from talos.upgrade.release.layer import Release
from talos.upgrade.session import Installer
from talos.upgrade.slots.port import Slots
from talos.upgrade.state import Upgrade


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

    async def ask(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Check services now, all at once and beside their own schedule; UnknownServiceError.

        The failures by service. It takes twice the longest of their timeouts at most, which is etcd's: 30 s.
        """
        ...

    def start_soon(self, ids: Iterable[str]) -> None:
        """Start services for the system itself, those that don't run. UnknownServiceError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the event log. ``id`` is an xid, sortable by time; ``time`` in seconds.

    ``number`` counts the events of this boot from 1.
    """

    id: str
    number: int
    time: float
    actor_id: str
    payload: Message


class Events(Protocol):
    """The node's event log: a ring of the newest events, and their followers."""

    def make_id(self) -> str:
        """An event id for the present moment."""
        ...

    def publish(self, payload: Message, *, actor_id: str = "") -> Event:
        """Add an event."""
        ...

    def follow(
        self, *, tail: int = 0, after_id: str = "", seconds: float = 0.0, actor_id: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """New events without end, after the requested past ones.

        ``tail``: this many (negative: all that are kept); ``after_id``: those with a later id, whether
        or not that event is still kept; ``seconds``: those of the last seconds. Of several, the last
        named here counts. ``actor_id`` limits to one actor.
        A follower that falls a whole ring behind misses the oldest events.
        """
        ...


class UnknownLogError(Exception):
    """There is no log with this id."""


class Logs(Protocol):
    """The logs of the node's services."""

    def ids(self) -> Sequence[str]:
        """Every log there is, ordered."""
        ...

    def append(self, id: str, data: bytes) -> None:
        """Append whole lines to a log, which is created if necessary."""
        ...

    def read(
        self, id: str, *, follow: bool = False, tail_lines: int = -1
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What a log holds, in chunks of whole lines; negative ``tail_lines``: all. UnknownLogError.

        With ``follow`` new lines are included as they are written.
        """
        ...


class KernelLog(Protocol):
    """The kernel's ring buffer."""

    def read(
        self, *, follow: bool = False, tail: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Messages, one formatted line each; with ``tail`` only those from now on."""
        ...


class Platform(Protocol):
    """What the machine is, and what it was handed at its start."""

    @property
    def name(self) -> str:
        """The platform's name, such as ``metal`` or ``container``."""
        ...

    @property
    def mode(self) -> str:
        """``cloud``, ``container`` or ``metal``, as in the Version reply."""
        ...

    @property
    def cmdline(self) -> str:
        """The kernel's command line, or what takes its place."""
        ...

    @property
    def has_kernel(self) -> bool:
        """Whether the kernel, its console and its devices are the machine's own."""
        ...

    @property
    def has_disks(self) -> bool:
        """Whether there are disks to install to, with META on them."""
        ...

    def allows(self, method: str) -> bool:
        """Whether a method makes sense here, by a name such as ``machine.MachineService/Upgrade``."""
        ...


class RebootMode(enum.IntEnum):
    """How to reboot; the numbers are those of ``RebootRequest.Mode``."""

    DEFAULT = 0
    POWERCYCLE = 1
    FORCE = 2


class SequenceLockedError(Exception):
    """Another sequence runs. The events of ``actor``, who is answered with that, have it already."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor)
        self.actor = actor


class NodeLock(Protocol):
    """What lets one control plane node be down at a time."""

    async def take(self, report: Callable[[str], None]) -> None:
        """Take it, or prolong that; RpcError when the others can't do without this node now."""
        ...

    async def keep(self, log: Log) -> None:
        """Prolong it until cancelled."""
        ...

    async def release(self) -> None:
        """Give it back."""
        ...


class UpgradeLock(NodeLock, Protocol):
    """The lock of upgrades in etcd, as this boot takes it."""

    async def take_for_rollback(self, log: Log) -> None:
        """Take it whatever etcd's members are; RpcError while another node has it."""
        ...

    async def hold_on_trial(self) -> None:
        """Take it, or prolong that, for a trial; RpcError, OSError."""
        ...

    async def free_earlier(self) -> None:
        """Give back what earlier boots have taken, and trials; RpcError, OSError."""
        ...


class Trial(Protocol):
    """The upgrade that this boot may be the trial of, for those who judge it."""

    current: Upgrade
    """The state of the upgrade."""

    @property
    def cmdline(self) -> str:
        """The kernel's command line."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether META is read, and with it known what this boot is."""
        ...

    @property
    def is_guarded(self) -> bool:
        """Whether this system was started for one time only, so that a watchdog was armed."""
        ...

    @property
    def running(self) -> str:
        """The slot that runs; empty where no slot was booted."""
        ...

    @property
    def fallback(self) -> str:
        """Why another slot than the default runs; empty when the default does."""
        ...

    def listen(self, listener: Callable[[], None]) -> None:
        """A callback after every change."""
        ...

    async def confirm(self) -> None:
        """This system has come up. UserError, OSError."""
        ...

    async def bless(self) -> None:
        """Make the system on trial the default. UserError, OSError; then it is still on trial."""
        ...

    async def revert(self, reason: str) -> None:
        """End the trial, unless it has its verdict. UserError, OSError."""
        ...


class Upgrades(Trial, Protocol):
    """What the API does with releases."""

    @property
    def state(self) -> State:
        """The node's State."""
        ...

    @property
    def slots(self) -> Slots:
        """Where systems are kept."""
        ...

    @property
    def keys(self) -> Path:
        """The folder of the keys that sign releases."""
        ...

    @property
    def log(self) -> Log:
        """The log of upgrades that no client watches."""
        ...

    def claim(self) -> AbstractContextManager[ExitStack]:
        """For one call that installs at a time; UserError. With ``pop_all`` it lasts for the whole boot."""
        ...

    async def prepare(self, release: Release, *, force: bool = False) -> Installer:
        """What writes a release to the other slot and has it booted once; UserError when it must not."""
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """For a caller that writes a system to a disk; UserError when another one does."""
        ...

    async def roll_back(self) -> None:
        """Have the system in the other slot booted once; what is staged or on trial just ends.

        UserError, OSError.
        """
        ...


class Power(Protocol):
    """The sequences that end this boot. Each runs in the background."""

    @property
    def is_locked(self) -> bool:
        """Whether a sequence runs that does not give way to another one."""
        ...

    def reboot(
        self,
        *,
        mode: RebootMode = RebootMode.DEFAULT,
        is_upgrade: bool = False,
        lock: NodeLock | None = None,
    ) -> str:
        """Start to reboot; the actor id (UUID) under which its events appear. SequenceLockedError.

        ``is_upgrade``: into another release, so pods move elsewhere before. ``lock`` is held meanwhile, and
        given back by a node that stays up because it can't take it anew when its services are to stop.
        """
        ...

    def shutdown(self, *, force: bool = False) -> str:
        """Start to shut down, taking over from any other sequence; the actor id likewise."""
        ...

    def reset(self, plan: ResetPlan) -> str:
        """Start to erase what a plan names; the actor id. SequenceLockedError."""
        ...

    def upgrade(
        self,
        install: Callable[[], Awaitable[None]],
        *,
        staged: bool,
        lock: NodeLock | None = None,
        stay: Callable[[], None] = lambda: None,
    ) -> str:
        """Start to stop services, install and reboot, or with ``staged`` to install first; the actor id.

        ``lock`` as in :meth:`reboot`; ``stay`` is called by a node that stays up. SequenceLockedError.
        """
        ...


class Processes(Protocol):
    """Programs that PID 1 runs for its other parts."""

    async def run(self, argv: Sequence[str], *, log: str = "") -> int:
        """Run a program to its end: its exit code, negative for a signal. Output goes to a log."""
        ...

    async def capture(self, argv: Sequence[str], stdin: bytes = b"") -> Finished:
        """Run a program to its end and give back what it wrote; UserError when it isn't there."""
        ...


class MetaValues(Protocol):
    """META's values. Changes raise UserError when there is no META, ValueError when it is full, OSError."""

    async def get(self, key: int) -> bytes | None:
        """A value, None when there is none."""
        ...

    async def set(self, key: int, value: bytes, *, reserved: Mapping[int, int] | None = None) -> None:
        """Write a value, if there is room for ``reserved`` bytes by key, too; then it is on the disk."""
        ...

    async def delete(self, key: int) -> bool:
        """Remove a value; False when there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The doors to the kernel that handlers use."""

    files: Files
    groups: Groups
    state_dir: Path
    """STATE, where the config is kept."""
    now: Callable[[], float]
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything a handler of the machine API works with."""

    state: State
    services: Services
    events: Events
    logs: Logs
    kernel_log: KernelLog
    platform: Platform
    ports: Ports
    power: Power
    processes: Processes
    meta: MetaValues
    etcd: EtcdControl
    upgrades: Upgrades
    upgrade_lock: UpgradeLock
    connect: Callable[[str], AbstractAsyncContextManager[DuplexTransport]]
    """A channel to a unix socket, such as containerd's; it reconnects by itself."""
    connect_remote: Callable[[RemoteServer], AbstractAsyncContextManager[DuplexTransport]]
    """A channel to a server in the network, such as another node's API."""
