"""What can be erased, by the API, from GRUB's menu and by kernel arguments; and what is refused."""

from dataclasses import replace
from pathlib import Path
from shutil import copyfile

from driver.client import at
from driver.disks import read_disk
from driver.machine import Machine
from driver.node import Disk
from driver.process import run
from driver.scenarios import (
    UPGRADED,
    apply_config,
    check_refused,
    read_log,
    start_installed,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
SPARE = Disk(size="400M", recorded=True)
NODES = {"node": replace(UPGRADED, disks={**UPGRADED.disks, "one": SPARE, "two": SPARE})}
"""The system is on vda; vdb and vdc have a filesystem each."""
TAG, KEPT = "0x0c", "kept over a reset of other partitions"
NEXT = "\x0e"
"""Control-N: the next line of GRUB's menu."""


def list_filesystems(node: Machine) -> dict[str, str]:
    """What each disk and partition holds, by its name."""
    return {
        str(at(volume, "metadata.id")): str(at(volume, "spec.name") or "")
        for volume in node.get("discoveredvolumes")
    }


def check_devices(node: Machine) -> None:
    found = {str(at(device, "metadata.id")) for device in node.get("blockdevices")}
    assert {"vda5", "vda6"} <= found, found


def assert_empty(disk: Path) -> None:
    """The file of a disk has nothing where filesystems have their mark."""
    with disk.open("rb") as file:
        assert not any(file.read(4096)), f"{disk.name} is not erased"


def check_kept(node: Machine, machine_id: str) -> None:
    assert node.client.run("read", "/etc/machine-id").stdout == machine_id, "STATE is lost"
    assert KEPT in node.client.run("get", "metakeys", "-o", "yaml").stdout, "META is lost"


def test(world: World) -> None:
    node = world["node"]
    installed = world.folder / "installed.qcow2"
    for disk in node.recorded.values():
        run([*world.programs.argv("mkfs.xfs"), "-q", str(disk.path)])
    start_installed(world, node, lambda: copyfile(node.disk("system"), installed))
    node.talosctl("meta", "write", TAG, KEPT)
    machine_id = node.client.run("read", "/etc/machine-id").stdout
    log = read_log(node)

    node.wait_until("udevd knows the new partitions", lambda: check_devices(node))

    world.section("what is in use, or not there, is not erased")
    check_refused(
        node, "wipe", "disk", "vda", reason='blockdevice "vda" is the system disk (use talosctl reset'
    )
    check_refused(node, "wipe", "disk", "vda6", reason='blockdevice "vda6" is in use by volume "EPHEMERAL"')
    check_refused(node, "wipe", "disk", "vdz", reason='blockdevice "vdz" not found')
    check_refused(node, "wipe", "disk", "vdb", "vda", reason='"vda" is the system disk')
    check_refused(node, "reset", "--user-disks-to-wipe", "/dev/vda", reason="/dev/vda is the system disk")
    check_refused(node, "reset", "--user-disks-to-wipe", "/dev/vdz", reason="there is no disk /dev/vdz")
    check_refused(
        node, "reset", "--system-labels-to-wipe", "VAR", reason="the system disk has no partition VAR"
    )
    check_refused(node, "reset", "--wipe-mode", "user-disks", reason="no disk is named")
    assert list_filesystems(node)["vdb"] == "xfs", "a disk was erased by a request that was refused"

    world.section("a disk")
    node.talosctl("wipe", "disk", "vdb")
    assert list_filesystems(node)["vdb"] == ""
    assert_empty(node.recorded["one"].path)

    world.section("EPHEMERAL and another disk, by a reset that reboots")
    argv = ("--system-labels-to-wipe", "EPHEMERAL", "--user-disks-to-wipe", "/dev/vdc", "--reboot")
    node.talosctl("reset", *argv, "--graceful=false", seconds=300)
    node.wait_for_reset()
    wait_for_installed(node)
    check_kept(node, machine_id)
    assert_empty(node.recorded["two"].path)
    assert read_log(node) != log, "EPHEMERAL is what it was"

    world.section("STATE and EPHEMERAL, from GRUB's menu")
    node.skips_menu = False
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    node.wait_for_console_text("Reset A - Talos")
    node.send_console(f"{NEXT}\r")
    node.wait_for_console_text(r"erasing .*talos\.experimental\.wipe.*EPHEMERAL")
    node.skips_menu = True
    node.client.talosconfig = None
    node.wait_for_api(insecure=True)

    world.section("everything, and the machine switches itself off")
    apply_config(node, world.cluster())
    wait_for_installed(node)
    assert node.client.run("read", "/etc/machine-id").stdout != machine_id, "STATE is what it was"
    node.talosctl("reset", seconds=300)
    node.wait_for_off()
    node.client.talosconfig = None
    assert_empty(read_disk(world.programs, node.disk("system"), world.folder / "erased.raw"))

    world.section("talos.halt_if_installed")
    copyfile(installed, node.disk("system"))
    wipe = replace(node.node, boot="pvh", arguments=("talos.experimental.wipe=system",))
    node.start(node=replace(wipe, arguments=("talos.halt_if_installed=1",)))
    node.wait_for_console_text("installed already, .* boot from the disk .*talos.halt_if_installed")
    node.crash()

    world.section("talos.experimental.wipe=system")
    node.start(node=wipe)
    node.wait_for_console_text(r"erasing .*/dev/vda")
    node.wait_for_api(insecure=True)
