"""The interfaces of PID 1 that the machine API uses, in the modules of this folder; all of them together.

This is the seam between the API with the State on one side and the supervisor on the other.
The handlers see nothing of the supervisor but these protocols, so the two sides could be
put into two processes without touching a handler.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from talos.api.rpc import DuplexTransport
from talos.machined.node.debug_containers import DebugContainers
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.ports.logs import Events, KernelLog, Logs
from talos.machined.node.ports.power import Power
from talos.machined.node.ports.services import Services
from talos.machined.node.ports.upgrades import UpgradeLock, Upgrades
from talos.machined.node.workloads import Workloads
from talos.resource.state import State
from talos.rpc.port.remote import RemoteServer
from talos.system.cgroups import Groups
from talos.system.files import Files
from talos.system.process import Finished


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
    workloads: Workloads
    debug_containers: DebugContainers
    connect: Callable[[str], AbstractAsyncContextManager[DuplexTransport]]
    """A channel to a unix socket, such as containerd's; it reconnects by itself."""
    connect_remote: Callable[[RemoteServer], AbstractAsyncContextManager[DuplexTransport]]
    """A channel to a server in the network, such as another node's API."""
