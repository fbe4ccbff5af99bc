"""Nodes that are containers: PID 1 of the image in namespaces of its own."""

import logging
import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import override

from talos.provision.cluster import ClusterRequest, NodeRequest
from talos.provision.container.handover import make_cmdline, make_network
from talos.provision.container.init import start_init
from talos.provision.container.mounts import NodeMounts
from talos.provision.host.cgroups import Hierarchy, NodeLimits
from talos.provision.host.companions import Companion
from talos.provision.host.links import ClusterNetwork
from talos.provision.launcher import Nodes, Outcome, StartError
from talos.provision.store import ClusterFolder
from talos.system.block.loop import LoopDevice
from talos.system.errors import UserError
from talos.system.process import describe_exit
from talos.upgrade.slots.folder import Boot, SlotFolder

log = logging.getLogger(__name__)


class ContainerNodes(Nodes):
    """One loop device for the image that all share, and one for each node's disk.

    What a boot loader does on a machine is done here: choosing the slot.
    """

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
            SlotFolder(self._folder.slots(node.name)).create(self._request.stamp)

    @override
    def limits(self, node: NodeRequest) -> NodeLimits:
        return NodeLimits(cpus=node.cpus, memory=node.memory)

    @override
    def start(self, node: NodeRequest, group: Sequence[str]) -> int:
        slots = SlotFolder(self._folder.slots(node.name))
        boots = slots.choose()
        for boot, following in zip(boots, [*boots[1:], None], strict=True):
            try:
                return self._start_slot(node, group, boot)
            except (StartError, UserError, OSError) as error:
                slots.note_end(f"its system image can't be started: {error}")
                if following is None:
                    raise
                log.warning("node %s: slot %s does not start: %s", node.name, boot.slot, error)
        raise StartError(f"neither slot of {node.name} holds a system")

    def _start_slot(self, node: NodeRequest, group: Sequence[str], boot: Boot) -> int:
        assert self._image is not None
        slots = SlotFolder(self._folder.slots(node.name))
        log.info("node %s: slot %s%s", node.name, boot.slot, ", on trial" if boot.is_trial else "")
        slots.set_watchdog(armed=boot.is_trial)
        own = slots.image(boot.slot)
        files = [*([own] if own else []), *slots.layers(boot.slot)]
        with ExitStack() as stack:
            # Their mounts keep the devices.
            devices = [stack.enter_context(closing(LoopDevice(file, read_only=True))).path for file in files]
            if own is None:
                devices.insert(0, self._image.path)
            return self._start_image(node, group, boot, devices)

    def _start_image(
        self, node: NodeRequest, group: Sequence[str], boot: Boot, devices: Sequence[Path]
    ) -> int:
        mounts = NodeMounts(
            root=self._folder.root,
            image=devices[0],
            layers=tuple(devices[1:]),
            disk=self._disks[node.name].path,
            state_partition=self._folder.state_partition(node.name),
            slots=self._folder.slots(node.name),
            slot=boot.slot,
            hierarchies=self._hierarchies,
            cmdline=make_cmdline(node, boot),
            network=make_network(self._request, node),
            config=node.config,
            image_cache=self._request.image_cache,
        )
        console = self._folder.console(node.name)
        return start_init(mounts, tuple(group), console, lambda pid: self._network.plug(node.address, pid))

    @override
    def end(self, node: NodeRequest, status: int) -> Outcome:
        """``reboot(2)`` in a pid namespace ends PID 1 with SIGHUP for a restart, SIGINT for power off."""
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) == signal.SIGHUP:
                return Outcome.RESTART
            if os.WTERMSIG(status) == signal.SIGINT:
                return Outcome.POWER_OFF
        cause = f"its PID 1 ended with {describe_exit(os.waitstatus_to_exitcode(status))}"
        SlotFolder(self._folder.slots(node.name)).note_end(cause)
        return Outcome.CRASH

    @override
    def check(self, node: NodeRequest) -> float | None:
        slots = SlotFolder(self._folder.slots(node.name))
        left = slots.count_down()
        if left is not None and left <= 0:
            slots.note_end("it hung, and its launcher killed it")
        return left

    @override
    def close(self) -> None:
        for disk in self._disks.values():
            disk.close()
