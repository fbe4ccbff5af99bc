"""Wherever the power is cut during an upgrade: one of the two versions boots, and nothing is lost."""

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from driver.boot_loader import BootLoader, change_boot_loader, read_boot_loader
from driver.client import at
from driver.disks import copy_sparse, is_meta_whole
from driver.grub import SIZE, START, BootDisk, Start
from driver.machine import Machine
from driver.node import Disk
from driver.programs import Programs
from driver.releases import Releases
from driver.replay import Cut, Replay, choose_cuts, list_torn_writes
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    read_version,
    start_installed,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", recorded=True)})}
PLAIN = {"system": Disk(size="8G", raw=True)}
"""The same disk without a record: firmware waits for the test at each read of a recorded one."""
POINTS, BOOTS = int(os.environ.get("POINTS", "25")), int(os.environ.get("BOOTS", "1"))
"""Power cuts that are looked at with GRUB's eyes, and those of them that are booted; of several, one is
upgraded then."""
SEED = int(os.environ.get("SEED", "11"))
OLD, NEW = INSTALLED_VERSION, "v1.15.3 in B"
TAG, KEPT = "0x0c", "kept over power cuts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is on the machine's disk before: only what is written through at once, not a line of a log."""

    machine_id: str
    image: str


def keep(node: Machine, releases: Releases) -> Kept:
    """Put something on each of the machine's volumes."""
    node.talosctl("meta", "write", TAG, KEPT)
    image = releases.offer_empty("kept")
    node.talosctl("image", "--namespace", "system", "pull", image)
    return Kept(machine_id=node.client.run("read", "/etc/machine-id").stdout, image=image)


def check_start(disk: BootDisk, systems: dict[str, tuple[str, ...]]) -> Start:
    """Assert that GRUB starts a complete system, and after a trial the old one."""
    start = disk.find_start()
    tried = start.first if any(disk.hash_system(start.first)) else start.second
    assert disk.hash_system(tried) == systems[tried], f"GRUB would start what is not complete: {start}"
    if start.is_trial:
        assert disk.hash_system(start.second) == systems[start.second], f"there is no way back from {start}"
    return start


def check_boot_loader(programs: Programs, image: Path, old: BootLoader, new: BootLoader) -> None:
    """Assert that firmware of either kind starts one of these, whole."""
    found = read_boot_loader(programs, image)
    assert (found.place, found.core) in ((old.place, old.core), (new.place, new.core)), "the core is torn"
    assert found.efi in (old.efi, new.efi), "UEFI's file is torn"


def check_boot(node: Machine, kept: Kept) -> str:
    """Boot; the machine ends with one of the versions and with everything that it had."""
    node.start(node=replace(node.node, disks=PLAIN))
    wait_for_installed(node)
    node.wait_until("the machine is not on trial", lambda: check_rest(node), 400)
    version = read_version(node)
    assert version in (OLD, NEW), version
    assert kept.image in node.client.run("image", "--namespace", "system", "list").stdout, "/var is lost"
    assert node.client.run("read", "/etc/machine-id").stdout == kept.machine_id
    assert KEPT in node.client.run("get", "metakeys", "-o", "yaml").stdout
    return version


def check_rest(node: Machine) -> None:
    values = {str(at(key, "metadata.id")): str(at(key, "spec.value")) for key in node.get("metakeys")}
    phase = json.loads(values["0x40"])["phase"] if "0x40" in values else "idle"
    assert phase not in ("staged", "trial"), f"an upgrade is {phase}"


def test(world: World) -> None:
    node = world["node"]
    disk = node.recorded["system"]
    releases = start_installed(world, node, partial(change_boot_loader, world.programs, disk.path))
    kept = keep(node, releases)
    image = releases.make("v1.15.3")

    world.section("an upgrade, with a record of what is written")
    base = world.folder / "base.raw"
    node.monitor.execute("stop")
    copy_sparse(disk.path, base)
    disk.record()
    node.monitor.execute("cont")
    node.client.run("upgrade", "--image", image, seconds=UPGRADE_TIMEOUT)
    assert read_version(node) == NEW
    node.crash()
    disk.stop()
    old, new = (read_boot_loader(world.programs, path) for path in (base, disk.path))
    assert old.place != new.place, "the boot loader is not replaced"
    systems = {slot: BootDisk(world.programs, disk.path).hash_system(slot) for slot in "AB"}

    world.section("what GRUB would start, had the disk kept any part of a filesystem's last writes")
    replay = Replay(base, disk, world.folder / "torn.raw")
    tears = list(list_torn_writes(disk.writes, START, START + SIZE))
    for cut in tears:
        with replay.cut(cut) as what:
            try:
                BootDisk(world.programs, replay.image).find_start()
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from error
    world.show(f"{len(tears)} torn writes")

    world.section("what firmware would start, in the same way")
    replay = Replay(base, disk, world.folder / "torn.raw")
    tears = list(list_torn_writes(disk.writes, 0, START))
    for cut in tears:
        with replay.cut(cut) as what:
            try:
                check_boot_loader(world.programs, replay.image, old, new)
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from error
    assert tears, "nothing was written there"
    world.show(f"{len(tears)} torn writes")

    world.section(f"{POINTS} power cuts of the seed {SEED}")
    replay = Replay(base, disk, world.folder / "cut.raw")
    cuts = {"old": list[Cut](), "other": list[Cut]()}
    for cut in choose_cuts(disk.writes, POINTS, SEED):
        with replay.cut(cut) as what:
            start = check_start(BootDisk(world.programs, replay.image), systems)
            check_boot_loader(world.programs, replay.image, old, new)
            assert is_meta_whole(replay.image), f"{what}: no copy of META is whole"
        world.show(f"{what}: {start}")
        cuts["old" if start.first == "A" else "other"].append(cut)

    world.section(f"{BOOTS} of them booted")
    random = Random(SEED)
    first = random.choice(cuts["old"])
    others = random.sample([cut for cut in cuts["old"] + cuts["other"] if cut is not first], BOOTS - 1)
    replay = Replay(base, disk, world.folder / "boot.raw")
    for cut in sorted([first, *others], key=lambda cut: cut.flushed):
        with replay.cut(cut) as what:
            disk.replace(replay.image)
        version = check_boot(node, kept)
        world.show(f"{what}: {version}")
        if cut is first:
            assert version == OLD
            if BOOTS > 1:
                node.client.run("upgrade", "--image", image, seconds=UPGRADE_TIMEOUT)
                assert read_version(node) == NEW, "a machine whose upgrade was cut is not upgraded"
        node.crash()
