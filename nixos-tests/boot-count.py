"""A default that does not come up any more, and GRUB without its files: the machine returns and logs why."""

import re
from dataclasses import replace
from pathlib import Path

from driver.boot_volume import damage, make_boot
from driver.grub import CONFIG, ENVIRONMENT, HEADER, SIZE, BootDisk, Start
from driver.machine import Machine
from driver.node import Disk
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_crash,
    check_diagnostic,
    read_version,
    start_installed,
    wait_for_installed,
)
from driver.system_image import find_root
from driver.tiny_kernel import make_kernel
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", raw=True)})}
OLD, NEW = INSTALLED_VERSION, "v1.15.1 in B"
CORRUPT = r"kernel panic: dm-verity device corrupted, after: verity: .*data block \d+ is corrupted"
REASON = f"slot B did not come up in 3 starts: {CORRUPT}"
STARTED = re.compile(r"BOOT_IMAGE=/([AB])/vmlinuz ")
BLOCK = 4096
"""Bytes. A whole one is overwritten."""


def wait_for_count(node: Machine, boot: BootDisk, count: str) -> None:
    def check() -> None:
        found = boot.read_variable("boot_count")
        assert found == count, f"GRUB counts {found or 'no'} starts"

    node.wait_until("the count of starts is what it should be", check)


def check_environment(boot: BootDisk) -> None:
    found = boot.read(ENVIRONMENT) or b""
    assert found.startswith(HEADER), f"it begins with {found[:16]!r}"


def overwrite(disk: Path, place: int) -> None:
    with disk.open("r+b") as file:
        file.seek(place)
        file.write(b"\xa5" * 4096)


def test(world: World) -> None:
    node = world["node"]
    path = node.disk("system")
    boot = BootDisk(world.programs, path)
    releases = start_installed(world, node)
    node.client.run("upgrade", "--image", releases.make("v1.15.1"), seconds=UPGRADE_TIMEOUT)
    assert read_version(node) == NEW

    world.section("a boot is counted until it has come up")
    node.crash()
    node.start()
    wait_for_count(node, boot, "1")
    wait_for_installed(node)
    assert read_version(node) == NEW
    wait_for_count(node, boot, "")
    node.crash()

    world.section("a default whose initramfs has become unreadable: the other slot is started and kept")
    initramfs = releases.initramfs("v1.15.1").read_bytes()
    place = find_root(initramfs) // BLOCK * BLOCK
    block = initramfs[place : place + BLOCK]
    assert damage(path, block, start=boot.find_place("B/initramfs") + place, size=BLOCK) == 1
    with node.console.expect("Kernel panic"):
        node.start()
        node.wait_for_console_text("the upgrade to v1.15.1 was reverted", UPGRADE_TIMEOUT)
    wait_for_installed(node)
    assert read_version(node) == OLD
    check_diagnostic(node, REASON)
    check_crash(node, "dm-verity device corrupted")
    wait_for_count(node, boot, "")
    assert boot.find_start() == Start(first="A", second="B")
    node.crash()

    world.section("GRUB's files are lost: both are written anew")
    node.start()
    node.wait_for_console_text("Linux version")
    for name in (CONFIG, ENVIRONMENT):
        overwrite(path, boot.find_place(name))
    node.wait_for_console_text("the boot loader's config was damaged and is written anew", 300)
    node.wait_for_console_text("GRUB's environment is written anew")
    node.wait_until("GRUB's environment is written", lambda: check_environment(boot))
    assert boot.find_start() == Start(first="A", second="B")
    wait_for_installed(node)
    node.crash()

    world.section("neither slot comes up: each is started three times, then GRUB waits")
    node.skips_menu = False
    make_boot(world.programs, path, world.folder / "boot", size=SIZE, room=SIZE, kernel=make_kernel())
    node.start()
    node.wait_for_console_text("Neither slot has come up in 3 starts", 300)
    assert STARTED.findall(node.console.text()) == [*"AAABBB"]
    wait_for_count(node, boot, "6")
    node.crash()

    world.section("GRUB without a config starts slot A")
    overwrite(path, boot.find_place(CONFIG))
    node.start()
    node.wait_for_console_text(r"grub\.cfg is missing or damaged: slot A is started")
    node.wait_for_console_text("BOOT_IMAGE=/A/vmlinuz .*talos.platform=metal console=ttyS0 console=tty0")
    node.crash()
