"""The process of a running cluster: it has the network open, and is the parent of every node's process.

It is one thread that waits for signals:

- SIGCHLD: a node's process ended: PID 1 of a container, QEMU of a machine. What the end means is up to
  the provider; a crash is followed by a restart after the ten seconds of a kernel panic on metal.
- SIGUSR1: end and start again the nodes that have a mark in their folder.
- SIGTERM, SIGINT: stop the nodes in an orderly way, then end.
- SIGQUIT: kill the nodes, then end.
"""

import enum
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from talos.provision.cluster import ClusterRequest, NodeRequest, NodeState
from talos.provision.host import cgroups
from talos.provision.host.cgroups import Hierarchy, NodeLimits
from talos.provision.host.companions import Companion, Companions, make_companions
from talos.provision.host.links import ClusterNetwork
from talos.provision.host.names import cluster_group, host_link, launcher_group, node_group
from talos.provision.host.processes import identify
from talos.provision.store import ClusterFolder, write_record

log = logging.getLogger(__name__)

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1}
PANIC_DELAY = 10.0
"""Seconds before a node that crashed starts again, as by the kernel argument panic=10 of machines."""
STOP_TIMEOUT = 60.0
"""Seconds for nodes to stop in an orderly way."""
MAX_CONSOLE = 16 << 20
"""Bytes after which a console's file is put aside at the next start of its node."""

type Report = Callable[[dict[str, Any]], None]


class StartError(Exception):
    """A node could not be started; the text has the reason."""


class Outcome(enum.Enum):
    """How a node's process ended."""

    RESTART = "restart"
    POWER_OFF = "power off"
    CRASH = "crash"


def rotate(console: Path) -> None:
    """Keep a console's file from growing without end: put a large one aside, one generation of it."""
    if console.exists() and console.stat().st_size > MAX_CONSOLE:
        console.replace(console.with_suffix(".log.1"))


@dataclass(slots=True)
class _Node:
    request: NodeRequest
    state: NodeState = NodeState.STOPPED
    pid: int = 0
    restart_at: float | None = None
    check_at: float | None = None
    """On the monotonic clock."""


class Nodes(Protocol):
    """What a provider does for the launcher, in the cluster's network namespace."""

    def companions(self) -> list[Companion]:
        """Programs that nodes of this kind need beside them."""
        ...

    def open(self, network: ClusterNetwork) -> None:
        """Before the first node: what all nodes need."""
        ...

    def start(self, node: NodeRequest, group: Sequence[str]) -> int:
        """Start a node in a control group; the pid of its process. StartError or OSError when it fails."""
        ...

    def limits(self, node: NodeRequest) -> NodeLimits:
        """The limits of the node's control group."""
        ...

    def end(self, node: NodeRequest, status: int) -> Outcome:
        """A node's process has ended; what its wait status means."""
        ...

    def check(self, node: NodeRequest) -> float | None:
        """The seconds until a node that runs has to be checked again, if ever; 0 or less when it hangs."""
        ...

    def close(self) -> None:
        """After the last node; safe without :meth:`open`."""
        ...


class Launcher:
    """One cluster's nodes, from first start to clean end."""

    def __init__(
        self,
        folder: ClusterFolder,
        request: ClusterRequest,
        nodes: Nodes,
        hierarchies: Sequence[Hierarchy],
        report: Report,
    ) -> None:
        self._folder = folder
        self._request = request
        self._report = report
        self._provider = nodes
        self._hierarchies = hierarchies
        self._nodes = [_Node(node) for node in request.nodes]
        self._companions = Companions([*make_companions(request), *nodes.companions()], folder)

    def run(self) -> None:
        """Start every node, serve until a signal, leave nothing behind."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        folder, request = self._folder, self._request
        cgroups.make_group(self._hierarchies, launcher_group(folder), NodeLimits())
        cgroups.join(self._hierarchies, launcher_group(folder), os.getpid())
        self._record()
        self._network = ClusterNetwork(request, host_link(folder))
        try:
            self._companions.start_due()
            self._provider.open(self._network)
            for node in self._nodes:
                self._start(node)
            self._record()
            self._report({"event": "ready"})
            self._serve()
        finally:
            self._kill()
            self._clean()

    def _start(self, node: _Node) -> None:
        began = time.monotonic()
        folder, name, address = self._folder, node.request.name, node.request.address
        group = node_group(folder, name)
        rotate(folder.console(name))
        # What the node before a restart left behind.
        cgroups.remove(self._hierarchies, group)
        cgroups.make_group(self._hierarchies, group, self._provider.limits(node.request))
        node.pid = self._provider.start(node.request, group)
        node.state, node.restart_at, node.check_at = NodeState.RUNNING, None, began
        milliseconds = 1000 * (time.monotonic() - began)
        log.info("node %s started in %.0f ms, pid %d", name, milliseconds, node.pid)
        self._report({"event": "started", "node": name, "address": str(address), "pid": node.pid})

    def _serve(self) -> None:
        while True:
            times = [at for node in self._nodes for at in (node.restart_at, node.check_at)]
            due = min((at for at in (*times, self._companions.next_start) if at is not None), default=None)
            if due is None:
                number = signal.sigwait(SIGNALS)
            else:
                info = signal.sigtimedwait(SIGNALS, max(0.0, due - time.monotonic()))
                number = signal.SIGCHLD if info is None else signal.Signals(info.si_signo)
            if number == signal.SIGQUIT:
                log.info("killing the nodes")
                return
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop()
                return
            if number == signal.SIGUSR1:
                self._reboot_marked()
            self._reap()
            self._check_due()
            self._restart_due()
            self._companions.start_due()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._companions.note_end(pid, status)
            for node in self._nodes:
                if node.pid == pid:
                    self._note_end(node, self._provider.end(node.request, status))

    def _note_end(self, node: _Node, outcome: Outcome) -> None:
        log.info("node %s ended: %s", node.request.name, outcome.value)
        node.pid, node.check_at = 0, None
        match outcome:
            case Outcome.RESTART:
                node.state, node.restart_at = NodeState.RESTARTING, time.monotonic()
            case Outcome.POWER_OFF:
                node.state, node.restart_at = NodeState.STOPPED, None
            case Outcome.CRASH:
                node.state, node.restart_at = NodeState.RESTARTING, time.monotonic() + PANIC_DELAY
        self._record()

    def _reboot_marked(self) -> None:
        for node in self._nodes:
            mark = self._folder.reboot_mark(node.request.name)
            if mark.exists():
                mark.unlink()
                if node.pid:
                    os.kill(node.pid, signal.SIGKILL)
                    os.waitpid(node.pid, 0)
                self._note_end(node, Outcome.RESTART)

    def _check_due(self) -> None:
        now = time.monotonic()
        for node in self._nodes:
            if node.check_at is None or node.check_at > now:
                continue
            left = self._provider.check(node.request)
            node.check_at = None if left is None else now + left
            if left is not None and left <= 0:
                log.warning("node %s has not fed its watchdog, it is killed", node.request.name)
                node.check_at = None
                os.kill(node.pid, signal.SIGKILL)

    def _restart_due(self) -> None:
        now = time.monotonic()
        for node in self._nodes:
            if node.restart_at is not None and node.restart_at <= now:
                try:
                    self._start(node)
                except (StartError, OSError):
                    log.exception("node %s could not be started again", node.request.name)
                    node.restart_at = now + PANIC_DELAY
                self._record()

    def _stop(self) -> None:
        log.info("stopping the nodes")
        end = time.monotonic() + STOP_TIMEOUT
        for node in self._nodes:
            node.restart_at = None
            if node.pid:
                os.kill(node.pid, signal.SIGTERM)
        while any(node.pid for node in self._nodes) and time.monotonic() < end:
            info = signal.sigtimedwait(SIGNALS, max(0.0, end - time.monotonic()))
            if info is not None and info.si_signo == signal.SIGQUIT:
                return
            self._reap()

    def _kill(self) -> None:
        for node in self._nodes:
            if node.pid:
                os.kill(node.pid, signal.SIGKILL)
                os.waitpid(node.pid, 0)
                node.pid, node.state = 0, NodeState.STOPPED
        self._companions.kill()

    def _clean(self) -> None:
        self._network.close()
        self._provider.close()
        for node in self._nodes:
            cgroups.remove(self._hierarchies, node_group(self._folder, node.request.name))
        self._folder.record.unlink(missing_ok=True)
        # The launcher itself has to leave its group before that can go.
        for hierarchy in self._hierarchies:
            cgroups.join([hierarchy], (), os.getpid())
        cgroups.remove(self._hierarchies, cluster_group(self._folder))
        cgroups.remove_if_empty(self._hierarchies, (cgroups.TOP,))

    def _record(self) -> None:
        own = identify(os.getpid())
        nodes: dict[str, dict[str, Any]] = {}
        for node in self._nodes:
            process = identify(node.pid) if node.pid else None
            nodes[node.request.name] = {
                "state": node.state.value,
                **(process.to_data() if process is not None else {}),
            }
        write_record(self._folder, {"launcher": own.to_data() if own else {}, "nodes": nodes})
