"""Nodes that are machines: a QEMU each, on taps in the cluster's bridge, with a DHCP server."""

import logging
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import override

from talos.provision.cluster import ClusterRequest, NodeRequest
from talos.provision.host import cgroups
from talos.provision.host.cgroups import Hierarchy, NodeLimits
from talos.provision.host.companions import Companion
from talos.provision.host.links import BRIDGE, ClusterNetwork
from talos.provision.launcher import Nodes, Outcome, StartError
from talos.provision.qemu.accelerator import find_accelerator
from talos.provision.qemu.arguments import make_dhcp, make_machine
from talos.provision.qemu.programs import find_programs
from talos.provision.store import ClusterFolder
from talos.system.process import describe_exit, spawn

log = logging.getLogger(__name__)

REFUSAL_TIMEOUT = 0.3  # seconds
"""For QEMU to read its arguments and open its disks."""


class MachineNodes(Nodes):
    """QEMU restarts a guest that reboots by itself, and ends when it powers off."""

    def __init__(
        self, folder: ClusterFolder, request: ClusterRequest, hierarchies: Sequence[Hierarchy]
    ) -> None:
        self._folder, self._request, self._hierarchies = folder, request, hierarchies
        self._programs = find_programs()

    @override
    def companions(self) -> list[Companion]:
        argv = make_dhcp(self._request, BRIDGE, self._folder.path / "leases")
        return [Companion("dhcp", [*self._programs.dnsmasq, *argv])]

    @override
    def open(self, network: ClusterNetwork) -> None:
        self._network = network
        self._qemu = (*self._programs.qemu, *find_accelerator(self._programs.qemu))
        log.info("processors: %s", self._qemu[-3])

    @override
    def limits(self, node: NodeRequest) -> NodeLimits:
        """QEMU's own arguments are the limits."""
        return NodeLimits()

    @override
    def start(self, node: NodeRequest, group: Sequence[str]) -> int:
        tap = self._network.add_tap(node.address)
        argv = [*self._qemu, *make_machine(self._folder, self._request, node, tap)]
        pid = start_machine(argv, self._folder.machine_log(node.name))
        cgroups.join(self._hierarchies, group, pid)
        return pid

    @override
    def check(self, node: NodeRequest) -> float | None:
        return None  # a machine has a watchdog of its own

    @override
    def end(self, node: NodeRequest, status: int) -> Outcome:
        """QEMU exits with 0 when its guest powers off."""
        return Outcome.POWER_OFF if os.waitstatus_to_exitcode(status) == 0 else Outcome.CRASH

    @override
    def close(self) -> None:
        """QEMU holds what it opened."""


def start_machine(argv: Sequence[str], log: Path) -> int:
    """The pid of a QEMU; StartError with its reason when it refuses its arguments, which it does at once."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        pid = spawn(argv, env=dict(os.environ), stdout=output, stderr=output)
    finally:
        os.close(output)
    handle = os.pidfd_open(pid)
    try:
        has_ended = bool(select.select([handle], [], [], REFUSAL_TIMEOUT)[0])
    finally:
        os.close(handle)
    if has_ended:
        _, status = os.waitpid(pid, 0)
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else describe_exit(os.waitstatus_to_exitcode(status))
        raise StartError(f"QEMU does not start: {reason}")
    return pid
