"""Disks that fail, are full, or hold garbage: the machine goes on with what it has, and reports why."""

from collections.abc import Callable
from dataclasses import replace
from subprocess import PIPE

from driver.boot_volume import damage, make_boot
from driver.disks import META_COPY, META_START
from driver.grub import HEADER, SIZE, START, BootDisk
from driver.machine import Machine
from driver.node import Disk
from driver.process import end_process, start_process
from driver.programs import Programs
from driver.recorder import EIO, LOST
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_diagnostic,
    read_version,
    start_installed,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", recorded=True)})}
SMALL, ROOM = 300 << 20, 130 << 20
"""Bytes of a BOOT with room for one more system, but not for two."""
LARGE = 1 << 20
"""Bytes of the largest write that a filesystem makes for itself, of its log; those of files are larger."""
CONTENT = "/var/lib/containerd/io.containerd.content.v1.content"


def is_of_boot(offset: int, length: int) -> bool:
    return START <= offset < START + SIZE and length > 0


def refuse(programs: Programs, node: Machine, image: str, reason: str) -> None:
    """The upgrade fails with this reason on one line; the machine and its slots are what they were."""
    disk = BootDisk(programs, node.recorded["system"].path)
    before = disk.find_start()
    result = node.client.run("upgrade", "--image", image, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, "the upgrade did not fail"
    assert any(reason in line for line in result.stderr.splitlines()), result.stderr
    assert "Traceback" not in result.stderr
    assert disk.find_start() == before
    assert all(disk.read(f"{slot}.new/vmlinuz") is None for slot in "AB"), "a part of the new system is left"


def test(world: World) -> None:
    node = world["node"]
    disk = node.recorded["system"]
    boot = BootDisk(world.programs, disk.path)

    def shrink(size: int = SMALL, room: int = ROOM) -> None:
        make_boot(world.programs, disk.path, world.folder / "boot", size=size, room=room)

    releases = start_installed(world, node, shrink)
    first = releases.make("v1.15.1")

    world.section("writes that fail")
    faults: dict[str, tuple[Callable[[int, int], int], str]] = {
        "of files": (
            lambda at, size: EIO if is_of_boot(at, size) and size > LARGE else 0,
            "Input/output error",
        ),
        "of everything": (lambda at, size: EIO if is_of_boot(at, size) else 0, "Input/output error"),
        "without an error": (
            lambda at, size: LOST if is_of_boot(at, size) and size > LARGE else 0,
            "reads differently from what was written",
        ),
    }
    for title, (fault, reason) in faults.items():
        world.show(title)
        with disk.fail(fault):
            refuse(world.programs, node, first, reason)
        assert disk.failed, "no write failed"
    assert "0x40" not in node.talosctl("get", "metakeys").stdout
    assert read_version(node) == INSTALLED_VERSION

    world.section("an upgrade, while /var can't be let go")
    node.talosctl("image", "pull", "--namespace", "cri", first, seconds=UPGRADE_TIMEOUT)
    argv = node.client.argv(["copy", CONTENT, "-"], insecure=False)
    holder = start_process(argv, log=world.folder / "copy.log", stdout=PIPE)
    assert holder.stdout is not None
    assert holder.stdout.read(1), "nothing is copied"
    node.client.run("upgrade", "--legacy", "--image", first, "--wait=false", seconds=UPGRADE_TIMEOUT)
    node.wait_for_console_text(r"still in use .*/var.*held_by.*\(PID 1\): /var/lib/containerd", 300)
    end_process(holder)
    node.wait_for_reset(UPGRADE_TIMEOUT)
    node.wait_for_console_text("v1.15.1 in slot B is the default from now on", UPGRADE_TIMEOUT)
    assert read_version(node) == "v1.15.1 in B"

    world.section("a full disk")
    second = releases.make("v1.15.2")
    refuse(world.programs, node, second, "No space left on device")
    assert read_version(node) == "v1.15.1 in B"

    world.section("the default does not boot: the other one does, says so, and is kept")
    node.crash()
    shrink(SIZE, SIZE)
    kernel = (world.assets.path("kernel") / "vmlinuz").read_bytes()
    place = boot.find_place("B/vmlinuz")
    assert damage(disk.path, kernel[:4096], start=place, size=4096) == 1
    node.start()
    node.wait_for_console_text("slot B is the default, but slot A was started", 300)
    wait_for_installed(node)
    check_diagnostic(node, "slot B is the default, but slot A was started")
    node.client.run("upgrade", "--image", second, "--no-reboot", seconds=UPGRADE_TIMEOUT)
    assert boot.find_start().first == "B"
    node.crash()

    world.section("garbage in META and in GRUB's environment: both are named, and the default boots")
    assert damage(disk.path, HEADER) == 1
    with disk.path.open("r+b") as file:
        file.seek(META_START)
        file.write(b"\xa5" * 2 * META_COPY)
    assert boot.find_start().first == "A"
    node.start()
    node.wait_for_console_text("invalid environment block")
    node.wait_for_console_text("META holds no whole copy of its values: they are lost", 300)
    wait_for_installed(node)
    assert read_version(node) == INSTALLED_VERSION
    node.talosctl("rollback")
    node.wait_for_reset()
    node.wait_for_console_text("v1.15.2 in slot B is the default from now on", UPGRADE_TIMEOUT)
    node.crash()

    world.section("neither slot boots")
    assert damage(disk.path, kernel[:4096]) >= 2
    node.start()
    node.wait_for_console_text("invalid magic number")
    node.wait_for_console_text("Failed to boot both default and fallback entries")
    node.crash()
    node.start(node=replace(node.node, boot="pvh"))
    wait_for_installed(node)
    refused = node.client.run("upgrade", "--image", second, check=False, seconds=UPGRADE_TIMEOUT)
    assert "was not started from a slot" in refused.stderr, refused.stderr
