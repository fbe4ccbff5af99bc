"""Nodes that are containers: PID 1 of the image in namespaces of its own."""

import os
import signal
from collections.abc import Sequence
from typing import override

from talos.provision.cluster import ClusterRequest, NodeRequest
from talos.provision.container.handover import make_cmdline, make_network
from talos.provision.container.init import start_init
from talos.provision.container.mounts import NodeMounts
from talos.provision.host.cgroups import Hierarchy, Limits
from talos.provision.host.companions import Companion
from talos.provision.host.links import ClusterNetwork
from talos.provision.launcher import Nodes, Outcome
from talos.provision.store import ClusterFolder
from talos.system.block.loop import LoopDevice


class ContainerNodes(Nodes):
    """One loop device for the image that all share, and one for each node's disk."""

    def __init__(
        self, folder: ClusterFolder, request: ClusterRequest, hierarchies: Sequence[Hierarchy]
    ) -> None:
        self._folder, self._request, self._hierarchies = folder, request, tuple(hierarchies)
        self._image: LoopDevice | None = None
        self._disks: dict[str, LoopDevice] = {}

    @override
    def companions(self) -> list[Companion]:
        return []

    @override
    def open(self, network: ClusterNetwork) -> None:
        self._network = network
        self._image = LoopDevice(self._request.image, read_only=True)
        for node in self._request.nodes:
            self._disks[node.name] = LoopDevice(self._folder.disk(node.name), read_only=False)

    @override
    def limits(self, node: NodeRequest) -> Limits:
        return Limits(cpus=node.cpus, memory=node.memory)

    @override
    def start(self, node: NodeRequest, group: Sequence[str]) -> int:
        assert self._image is not None
        mounts = NodeMounts(
            root=self._folder.root,
            image=self._image.path,
            disk=self._disks[node.name].path,
            state_partition=self._folder.state_partition(node.name),
            hierarchies=self._hierarchies,
            cmdline=make_cmdline(node),
            network=make_network(self._request, node),
            config=node.config,
        )
        console = self._folder.console(node.name)
        return start_init(mounts, tuple(group), console, lambda pid: self._network.plug(node.address, pid))

    @override
    def parse_status(self, status: int) -> Outcome:
        """``reboot(2)`` in a pid namespace ends PID 1 with SIGHUP for a restart, SIGINT for power off."""
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) == signal.SIGHUP:
                return Outcome.RESTART
            if os.WTERMSIG(status) == signal.SIGINT:
                return Outcome.POWER_OFF
        return Outcome.CRASH

    @override
    def close(self) -> None:
        for disk in self._disks.values():
            disk.close()
