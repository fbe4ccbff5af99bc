"""The spec of a service. The table of services is in :mod:`talos.machined.services.table`."""

import enum
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from talos.machined.containerd.client import CRI_SOCKET
from talos.machined.containerd.spec import ContainerSpec
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.ports.node import Platform, Processes
from talos.machined.node.resources import read_variables
from talos.machined.node.workloads import Workloads
from talos.machined.services.conditions import Condition
from talos.machined.services.health import Connect, HealthCheck
from talos.resource.state import State
from talos.system.cgroups import Limits
from talos.system.sandbox import NO_PATHS, Paths

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
)


async def read_own_variables(state: State) -> Mapping[str, str]:
    """Variables of the kernel's arguments and of the config, for containers: others are their image's."""
    variables = await read_variables(state)
    return {name: value for name, value in variables.items() if ENVIRONMENT.get(name) != value}


class ApiAction(enum.Enum):
    """What a user may do to a service through the API."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"


class Restart(enum.Enum):
    """What follows when a service has ended by itself."""

    ALWAYS = "always"
    NEVER = "never"
    UNTIL_SUCCESS = "untilSuccess"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory that has to be there before a service starts."""

    path: str
    uid: int = 0
    gid: int = 0
    mode: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A daemon of this system, forked from the zygote. It reports readiness.

    One that ``listens`` gets a socket on a port of the loopback interface, the same at every start.
    """

    module: str
    uid: int
    gid: int
    capabilities: tuple[int, ...] = ()
    paths: Paths = NO_PATHS
    sockets: tuple[str, ...] = ()
    families: tuple[int, ...] = ()
    listens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate:
    """The first process of namespaces for workloads, from the zygote. It reports readiness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Another program. One that ``is_workload`` is in the workloads' namespaces, where these are its own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default=ENVIRONMENT)
    is_workload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """A part of PID 1 itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContainer:
    """A container in namespace ``system`` of a containerd instance; its id is the service's.

    ``make`` is called at every start, so that a restarted service follows what the State holds by then. A
    UserError of it is the reason why the service does not start. The service depends on the one that is
    behind ``socket``. The container's control group is the service's.
    """

    make: "Callable[[ServiceContext], Awaitable[ContainerSpec]]"
    socket: str = CRI_SOCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """What ``prepare`` and ``skip`` of a service may use."""

    platform: Platform
    state: State
    connect: Connect
    etcd: EtcdControl
    processes: Processes
    workloads: Workloads = field(default_factory=Workloads)


type Prepare = Callable[[ServiceContext], Awaitable[None]]
type Skip = Callable[[ServiceContext], str]


async def prepare_nothing(_context: ServiceContext) -> None:
    """The ``prepare`` of most services."""


def never_skip(_context: ServiceContext) -> str:
    """The ``skip`` of services that every machine runs."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One row of the table of services.

    It starts when the services in ``depends`` are up and the conditions hold. ``skip`` gives
    the reason why this machine does not run it. What is ``on_demand`` is started by a controller, or for a
    config, and those that depend on it do so only then.
    Audit records of an ``audited`` one go to a log of their own. ``oom_score_adj`` is set where the kernel
    permits it.
    """

    id: str
    start: Fork | Isolate | Execute | RunContainer | InProcess
    depends: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    health: HealthCheck | None = None
    prepare: Prepare = prepare_nothing
    skip: Skip = never_skip
    control_plane_only: bool = False
    on_demand: bool = False
    directories: tuple[Directory, ...] = ()
    audited: bool = False
    group: str = ""
    limits: Limits = field(default_factory=Limits)
    oom_score_adj: int = 0
    restart: Restart = Restart.ALWAYS
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout: float = 10.0
    actions: frozenset[ApiAction] = frozenset()
