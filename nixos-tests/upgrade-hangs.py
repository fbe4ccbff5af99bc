"""Releases that hang before PID 1 runs and after: something resets the machine, the old version is back."""

from driver.releases import ENDLESS_SYSTEM
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_diagnostic,
    check_revert,
    read_version,
    start_installed,
    wait_for_installed,
)
from driver.tiny_kernel import make_kernel
from driver.world import World

ASSETS = ("kernel", "initramfs", "faulty-initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": UPGRADED}
RESET = "it hung, and the watchdog reset the machine"


def test(world: World) -> None:
    node = world["node"]
    releases = start_installed(world, node)

    world.section("an early init that hangs")
    check_revert(node, releases.make("v1.15.1", more=ENDLESS_SYSTEM), f"did not start: {RESET}")

    world.section("a PID 1 that hangs")
    image = releases.make("v1.15.2", asset="faulty-initramfs", arguments="fault=hangs")
    log = check_revert(node, image, f"ended before its self-check was done: {RESET}")
    assert "PID 1 hangs from now on" in log

    world.section("a kernel that waits for ever before it starts a program: its own detector ends that")
    with node.console.expect("Kernel panic"):
        image = releases.make("v1.15.3", arguments="rdinit=/none root=/dev/none rootdelay=1000000")
        check_revert(node, image, "did not start: kernel panic: hung_task: blocked tasks")

    world.section("a kernel that hangs before it has a detector: the next reset is the end of its trial")
    image = releases.make("v1.15.4", kernel=make_kernel(hangs=True))
    node.client.run("upgrade", "--image", image, "--no-reboot", seconds=UPGRADE_TIMEOUT)
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    node.wait_for_console_text("BOOT_IMAGE=/B/vmlinuz .*talos.trial", 300)
    node.monitor.execute("system_reset")
    node.wait_for_reset()
    node.wait_for_console_text("the upgrade to v1.15.4 was reverted", 300)
    wait_for_installed(node)
    assert read_version(node) == INSTALLED_VERSION
    check_diagnostic(node, "v1.15.4 in slot B did not start: its kernel left no trace")
