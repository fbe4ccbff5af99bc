"""Wherever the power is cut while a mirror is made, or one disk is filled: it ends whole, with its data."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from driver.client import at
from driver.disks import copy_sparse
from driver.machine import Machine
from driver.node import Disk, Node
from driver.replay import Cut, Replay, choose_cuts_of_all
from driver.scenarios import install, patch, volumes, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
BOOTS, SEED = int(os.environ.get("BOOTS", "4")), int(os.environ.get("SEED", "11"))
"""Power cuts that are booted, of each kind."""
SYNC_TIMEOUT = 300  # seconds
MEMBERS = ("one", "two")
MEMBER = Disk(size="512M", recorded=True)
NODES = {
    "node": Node(
        hands_over_kernel=True, memory=2048, disks={"system": Disk(size="8G"), "one": MEMBER, "two": MEMBER}
    )
}
METADATA = 1 << 20
"""Bytes at the end of members that are not equal: the array's metadata, and its bitmap."""
CONFIG = """\
apiVersion: v1alpha1
kind: RAIDArrayConfig
name: mirror
level: raid1
provisioning: {volumeSelector: {match: 'disk.serial in ["one", "two"]'}}
---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning:
  diskSelector: {match: '"/dev/disk/by-id/md-name-talos:mirror" in disk.symlinks'}
  minSize: 300MiB
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Both disks of a machine that is off, and copies of them as they were when a record began."""

    node: Machine
    folder: Path

    def record(self, name: str) -> None:
        """Begin a record of both; ``name`` is the copies'."""
        for member in MEMBERS:
            copy_sparse(self.node.recorded[member].path, self.folder / f"{member}.{name}")
            self.node.recorded[member].record()

    def choose(self) -> list[tuple[Cut, ...]]:
        """End the records, and choose cuts of them."""
        disks = [self.node.recorded[member] for member in MEMBERS]
        for disk in disks:
            disk.stop()
        return choose_cuts_of_all(disks, BOOTS, SEED)

    def replay(self, name: str) -> list[Replay]:
        """Both disks, from where the record began."""
        return [
            Replay(
                self.folder / f"{member}.{name}", self.node.recorded[member], self.folder / f"{member}.replay"
            )
            for member in MEMBERS
        ]


def check_whole(node: Machine) -> None:
    """Both disks are in the array, the volume is on it, and nothing is wrong with either."""
    (array,) = node.get("mdarraystatus") or [{}]
    found = [at(array, f"spec.{key}") for key in ("status", "raidDevices", "syncAction")]
    assert (*found[:2], found[2]) == ("ready", 2, "idle"), array
    assert str(at(array, "spec.members")).count("/dev/") == len(MEMBERS), array
    assert not at(array, "spec.error"), array
    volume = volumes(node).get("u-data", {})
    assert at(volume, "spec.phase") == "ready", volume


def wait_until_whole(node: Machine) -> object:
    """Wait for the array and its volume; the filesystem's UUID."""
    node.wait_until("the array and its volume are whole", lambda: check_whole(node), SYNC_TIMEOUT)
    return at(volumes(node)["u-data"], "spec.uuid")


def check_equal(node: Machine) -> None:
    """Switch it off; assert that both disks hold the same."""
    node.talosctl("shutdown", "--wait=false")
    node.wait_for_off()
    one, two = (node.recorded[member].path for member in MEMBERS)
    with one.open("rb") as first, two.open("rb") as second:
        left = one.stat().st_size - METADATA
        while left > 0:
            size = min(left, 1 << 20)
            assert first.read(size) == second.read(size), f"different {left >> 20} MiB before the end"
            left -= size


def boot_cuts(world: World, halves: Halves, name: str, cuts: list[tuple[Cut, ...]], uuid: object) -> None:
    """Boot what each cut leaves. The filesystem is this one, unless there is none yet."""
    node = halves.node
    replays = halves.replay(name)
    for pair in cuts:
        with ExitStack() as stack:
            left = [stack.enter_context(replay.cut(cut)) for replay, cut in zip(replays, pair, strict=True)]
            for member, replay in zip(MEMBERS, replays, strict=True):
                node.recorded[member].replace(replay.image)
        world.show("; ".join(left))
        node.start()
        wait_for_installed(node)
        found = wait_until_whole(node)
        assert not uuid or found == uuid, "the filesystem is another one"
        check_equal(node)


def test(world: World) -> None:
    node = world["node"]
    halves = Halves(node=node, folder=world.folder)
    node.start()
    install(node, world.cluster())
    wait_for_installed(node)

    world.section("an array and a volume on it are made, with a record of what is written")
    halves.record("made")
    patch(node, CONFIG)
    uuid = wait_until_whole(node)
    node.crash()

    world.section(f"{BOOTS} power cuts of the seed {SEED}")
    cuts = halves.choose()
    whole = world.folder / "whole"
    copy_sparse(node.recorded["one"].path, whole)
    boot_cuts(world, halves, "made", cuts, None)

    world.section("a blank disk in the place of one is filled")
    node.recorded["one"].replace(whole)
    blank = world.folder / "blank"
    with blank.open("wb") as file:
        file.truncate(whole.stat().st_size)
    node.recorded["two"].replace(blank)
    halves.record("filled")
    node.start()
    wait_for_installed(node)
    assert wait_until_whole(node) == uuid, "the filesystem is another one"
    node.crash()

    world.section(f"{BOOTS} power cuts of the seed {SEED}")
    boot_cuts(world, halves, "filled", halves.choose(), uuid)
