"""What the faults do, from outside of the nodes, and how they are mended."""

import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.faults.partition import partition
from tests.cluster.faults.plan import Fault, Kind
from tests.harness.cluster import Cluster, eventually
from tests.harness.etcd import find_etcd

from talos.provision.cluster import NodeInfo
from talos.system.errors import UserError

FILLER = "var/fault-filler"
PIECES = (1 << 30, 1 << 26, 1 << 20, 1 << 12)
"""Bytes by which a disk is filled: as much as there is room for, then less."""
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878  # linux/fs.h
FROZEN, THAWED = 1.2, 0.4
"""Seconds for which a slow disk writes nothing, and everything: within etcd's timeout of an election
of 1 s and beyond it."""
LOOP_INTERVAL = 0.1
"""Seconds between two checks whether etcd runs again, to be killed again."""


class AbsentError(Exception):
    """The node that a fault is for is down, or has no such process."""


@dataclass(slots=True)
class Injector:
    """Makes faults happen to the control plane nodes of a cluster; what it did is in ``log``."""

    cluster: Cluster
    count: int
    log: list[str] = field(default_factory=list[str])
    _began: float = field(default_factory=time.monotonic)
    _renewals: int = 0

    def inject(self, fault: Fault) -> None:
        """Have a fault happen, wait for as long as it lasts, and mend it."""
        self._note(str(fault))
        try:
            self._dispatch(fault)
        # A process may end between the look for it and the fault.
        except (AbsentError, ProcessLookupError, FileNotFoundError) as absence:
            self._note(f"  not possible now: {absence}")

    def _dispatch(self, fault: Fault) -> None:
        nodes = [self.cluster.nodes[number] for number in fault.nodes]
        match fault.kind:
            case Kind.PARTITION | Kind.ONE_WAY:
                self._partition(nodes, fault.seconds, both_ways=fault.kind is Kind.PARTITION)
            case Kind.DISK_FULL:
                self._fill(nodes[0], fault.seconds)
            case Kind.DISK_SLOW:
                self._slow_down(nodes[0], fault.seconds)
            case Kind.RENEW:
                self._renew(nodes[0])
            case _:
                self._end_processes(nodes, fault)

    def _end_processes(self, nodes: Sequence[NodeInfo], fault: Fault) -> None:
        match fault.kind:
            case Kind.KILL_PROCESS:
                self._kill_process(nodes[0], fault.chance)
            case Kind.KILL_ETCD:
                os.kill(_etcd(nodes[0]), signal.SIGKILL)
            case Kind.RESTART_LOOP:
                self._kill_again(nodes[0], fault.seconds)
            case Kind.STALL:
                self._stall(nodes[0], fault.seconds)
            case _:
                for node in nodes:
                    os.kill(_init(node), signal.SIGKILL)

    def _kill_process(self, node: NodeInfo, chance: float) -> None:
        processes = self.cluster.processes(node) if _init(node) else {}
        names = sorted(name for name, pids in processes.items() if name and node.pid not in pids)
        if not names:
            raise AbsentError(f"{node.name} runs nothing but its init")
        name = names[int(chance * len(names))]
        self._note(f"  {name}")
        for pid in processes[name]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_again(self, node: NodeInfo, seconds: float) -> None:
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            with suppress(AbsentError, ProcessLookupError):
                os.kill(_etcd(node), signal.SIGKILL)
                count += 1
            time.sleep(LOOP_INTERVAL)
        self._note(f"  killed {count} times")

    def _stall(self, node: NodeInfo, seconds: float) -> None:
        pid = _etcd(node)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _partition(self, nodes: Sequence[NodeInfo], seconds: float, *, both_ways: bool) -> None:
        alone = {str(node.address) for node in nodes}
        others = set(self.cluster.addresses[: self.count]) - alone
        with partition(self.cluster.info.launcher, sorted(alone), sorted(others), both_ways=both_ways):
            time.sleep(seconds)

    def _fill(self, node: NodeInfo, seconds: float) -> None:
        _init(node)
        try:
            fill(self.cluster.root(node) / FILLER)
            time.sleep(seconds)
        finally:
            eventually(f"the disk of {node.name} has room again", lambda: self._empty(node.name))

    def _empty(self, name: str) -> None:
        node = next(one for one in self.cluster.nodes if one.name == name)
        assert node.pid, f"{name} is down"
        try:
            (self.cluster.root(node) / FILLER).unlink(missing_ok=True)
        except OSError as error:
            raise AssertionError(f"{name}: {error}") from None

    def _slow_down(self, node: NodeInfo, seconds: float) -> None:
        _init(node)
        end = time.monotonic() + seconds
        try:
            descriptor = os.open(self.cluster.root(node) / "var", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise AbsentError(f"{node.name}: {error}") from None
        try:
            while time.monotonic() < end:
                fcntl.ioctl(descriptor, FIFREEZE, 0)
                try:
                    time.sleep(FROZEN)
                finally:
                    fcntl.ioctl(descriptor, FITHAW, 0)
                time.sleep(THAWED)
        finally:
            os.close(descriptor)

    def _renew(self, node: NodeInfo) -> None:
        """A name more in the certificate of the node's API: the node issues a new one."""
        self._renewals += 1
        patch = f'{{"machine": {{"certSANs": ["renewed-{self._renewals}.example.org"]}}}}'
        address = str(node.address)
        argv = ("patch", "machineconfig", "-m", "no-reboot", "-p", patch)
        try:
            result = self.cluster.talosctl("-e", address, "-n", address, *argv, check=False, seconds=30)
        except UserError as error:
            raise AbsentError(f"{node.name} does not answer: {error}") from None
        if result.returncode:
            raise AbsentError(f"{node.name} takes no config: {result.stderr.strip()}")

    def _note(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:6.1f} s  {text}"
        self.log.append(line)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def fill(path: Path) -> None:
    """Take all room of a file system, without writing it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AbsentError(str(error)) from None
    try:
        size = 0
        for piece in PIECES:
            with suppress(FullError):
                while True:
                    _allocate(descriptor, size, piece)
                    size += piece
    finally:
        os.close(descriptor)


class FullError(Exception):
    """There is no room for so many bytes more."""


def _allocate(descriptor: int, offset: int, size: int) -> None:
    try:
        os.posix_fallocate(descriptor, offset, size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise FullError from None
        raise AbsentError(str(error)) from None


def _init(node: NodeInfo) -> int:
    if not node.pid:
        raise AbsentError(f"{node.name} is down")
    return node.pid


def _etcd(node: NodeInfo) -> int:
    _init(node)
    try:
        return find_etcd(node)
    except (AssertionError, OSError) as error:
        raise AbsentError(str(error)) from None
