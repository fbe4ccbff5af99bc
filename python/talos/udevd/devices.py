"""All devices, kept as sysfs has them: nodes' permissions, links, disks and what is on them.

Everything here works level-triggered: an event names a device to scan, and its current state is applied.
Calls block (disks are read); the hub makes them in a thread, one at a time.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from talos.config.udev_rules import Rule
from talos.system.block.sysfs import SysDevice, Sysfs
from talos.system.logging import Log
from talos.system.net.uevents import Uevent
from talos.udevd.blocks import Block, Prober, make_env, make_links, name_array, read_block
from talos.udevd.disk_identity import Identify
from talos.udevd.escape import replace as clean
from talos.udevd.links import Links
from talos.udevd.net_names import choose_name, find_names
from talos.udevd.permissions import find_permission
from talos.udevd.rules import Assignments, apply_rules

type Rename = Callable[[str, str], str]
"""Rename an interface; return the reason of a failure, empty on success."""

_IGNORED_ACTIONS = frozenset({"bind", "unbind"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The interfaces through which devices are read and changed."""

    sysfs: Sysfs
    dev: Path
    prober: Prober
    identify: Identify
    rename: Rename
    set_owner: Callable[[Path, int, int], None] = os.chown
    log: Log
    rename_links: bool = True


@dataclass(slots=True)
class Devices:
    """The table. ``blocks`` is by kernel name, ``generations`` counts the scans of each."""

    ports: Ports
    blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    generations: dict[str, int] = field(default_factory=dict[str, int])
    cards: dict[str, SysDevice] = field(default_factory=dict[str, SysDevice])
    """PCI devices by address."""
    rules: tuple[Rule, ...] = ()
    _nodes: dict[str, str] = field(default_factory=dict[str, str])
    """Path to node of every character device."""
    links: Links = field(init=False)

    def __post_init__(self) -> None:
        self.links = Links(self.ports.dev, self.ports.log.once)

    def scan(self, action: str = "add") -> None:
        """Scan all devices: after lost events or changed rules."""
        self.scan_first(action)
        self.scan_rest(action)

    def scan_first(self, action: str = "add") -> None:
        """Scan the devices that the boot waits for: interfaces, disks, PCI."""
        sysfs = self.ports.sysfs
        for device in sysfs.listing("class/net"):
            self._take_link(device)
        self._take_blocks(action)
        self.cards = {device.kernel_name: device for device in sysfs.listing("bus/pci/devices")}

    def scan_rest(self, action: str = "add") -> None:
        """Scan the other devices: nodes with permissions, devices for rules, stale links."""
        self.links.sweep()
        nodes = self.ports.sysfs.by_numbers("char")
        for path in self._nodes.keys() - {device.path for device in nodes}:
            self._drop(path)
        for device in nodes:
            self._take_node(device, action)
        if self.rules:
            for device in self.ports.sysfs.everything():
                if not device.has("dev"):
                    self._take_other(device, action)

    def handle(self, events: Iterable[Uevent]) -> bool:
        """Scan the devices of events; true when published data may have changed."""
        actions: dict[str, str] = {}
        subsystems: dict[str, str] = {}
        for event in events:
            if event.action in _IGNORED_ACTIONS and event.subsystem != "pci":
                continue
            if event.old_path:
                actions.setdefault(event.old_path, "remove")
            actions[event.path] = event.action
            subsystems[event.path] = event.subsystem
        changed = False
        for path in sorted(actions):
            changed |= self._handle(path, subsystems.get(path, ""), actions[path])
        return changed

    def _handle(self, path: str, subsystem: str, action: str) -> bool:
        device = self.ports.sysfs.device(path)
        if not device.exists:
            self.cards.pop(device.kernel_name, None)
            return self._drop(path) or subsystem == "pci"
        subsystem = device.subsystem or subsystem
        if subsystem == "block":
            self._take_block(device, action)
            for part in self._partitions_of(device):
                self._take_block(part, action)
            return True
        if subsystem == "net":
            self._take_link(device)
        elif subsystem == "pci":
            self.cards[device.kernel_name] = device
        if device.has("dev"):
            self._take_node(device, action)
        elif self.rules:
            self._take_other(device, action)
        return subsystem == "pci"

    def rescan(self) -> None:
        """Probe every disk again, and detect added and removed disks and partitions."""
        self._take_blocks("change")

    def _take_blocks(self, action: str) -> None:
        present = sorted(self.ports.sysfs.by_numbers("block"), key=lambda device: device.path)
        paths = {device.path for device in present}
        for block in list(self.blocks.values()):
            if block.device.path not in paths:
                self._drop(block.device.path)
        for device in present:
            self._take_block(device, action)

    def _partitions_of(self, disk: SysDevice) -> list[SysDevice]:
        """A disk's table also describes its partitions."""
        found = (self.ports.sysfs.device(f"{disk.path}/{name}") for name in disk.entries("."))
        return [device for device in found if device.path.startswith(disk.path) and device.has("partition")]

    def _take_block(self, device: SysDevice, action: str) -> None:
        disk: Block | None = None
        if device.has("partition"):
            disk = self.blocks.get(device.path.split("/")[-2])
            if disk is None:
                return  # its disk's event is still to come, and brings the partition along
        block = read_block(device, self.ports.sysfs, self.ports.prober, self.ports.identify, disk)
        if disk is None and device.has("md"):
            block = name_array(block, self.blocks)
        name = block.name
        before = self.blocks.get(name)
        if before != block:
            self.generations[name] = self.generations.get(name, 0) + 1
        self.blocks[name] = block
        env = {**device.uevent, "ACTION": action, "SUBSYSTEM": "block", **make_env(block)}
        self._apply(device, block.node, Assignments(env=env, links=make_links(block)), action)

    def _take_node(self, device: SysDevice, action: str) -> None:
        uevent = device.uevent
        node = uevent.get("DEVNAME", "")
        if not node:
            return
        self._nodes[device.path] = node
        assignments = Assignments(env={**uevent, "ACTION": action, "SUBSYSTEM": device.subsystem})
        if device.subsystem == "rtc" and device.attribute("hctosys") == "1":
            assignments.links["rtc"] = 0
        elif device.subsystem == "virtio-ports" and device.attribute("name"):
            assignments.links[f"virtio-ports/{clean(device.attribute('name'))}"] = 0
        self._apply(device, node, assignments, action)

    def _take_other(self, device: SysDevice, action: str) -> None:
        """A device without a node: rules can only write its attributes."""
        assignments = Assignments(env={**device.uevent, "ACTION": action, "SUBSYSTEM": device.subsystem})
        apply_rules(self.rules, device, assignments, action)
        self._write(device, assignments)

    def _apply(self, device: SysDevice, node: str, assignments: Assignments, action: str) -> None:
        permission = find_permission(device)
        assignments.mode, assignments.uid, assignments.gid = permission.mode, permission.uid, permission.gid
        if self.rules:
            apply_rules(self.rules, device, assignments, action)
        path = self.ports.dev / node
        try:
            if assignments.gid is not None or assignments.uid is not None:
                self._own(path, assignments)
            if assignments.mode is not None and path.stat().st_mode & 0o7777 != assignments.mode:
                path.chmod(assignments.mode)
        except FileNotFoundError:
            pass  # removed already: its event is on the way
        except OSError as error:
            self.ports.log.once(f"{path}: {error.strerror}")
        self.links.claim(node, assignments.links)
        self._write(device, assignments)

    def _own(self, path: Path, assignments: Assignments) -> None:
        now = path.stat()
        uid = now.st_uid if assignments.uid is None else assignments.uid
        gid = now.st_gid if assignments.gid is None else assignments.gid
        if (now.st_uid, now.st_gid) != (uid, gid):
            self.ports.set_owner(path, uid, gid)

    def _write(self, device: SysDevice, assignments: Assignments) -> None:
        for problem in assignments.problems:
            self.ports.log.once(f"udev rule: {problem}")
        for name, value in assignments.writes.items():
            if device.attribute(name) == value:
                continue
            try:
                Path(device.folder, name).write_text(value, encoding="utf-8")
            except OSError as error:
                self.ports.log.once(
                    f'udev rule: writing "{value}" to {device.folder}/{name}: {error.strerror}'
                )

    def _take_link(self, device: SysDevice) -> None:
        if not self.ports.rename_links or not find_names(device, self.ports.sysfs).all:
            return
        new = choose_name(device, self.ports.sysfs)
        if not new:
            return
        old = device.kernel_name
        reason = self.ports.rename(old, new)
        if reason:
            self.ports.log.once(f"interface {old} keeps its name instead of {new}: {reason}")
        else:
            self.ports.log.info(f"interface {old} is {new} now")

    def _drop(self, path: str) -> bool:
        """A device was removed, with everything below it."""
        within = f"{path}/"
        for known in [known for known in self._nodes if known == path or known.startswith(within)]:
            self.links.claim(self._nodes.pop(known), {})
        changed = False
        for name, block in list(self.blocks.items()):
            if block.device.path == path or block.device.path.startswith(within):
                del self.blocks[name]
                self.generations.pop(name, None)
                self.links.claim(block.node, {})
                changed = True
        return changed
