"""A PID 1 that ends, an apid that does not answer, no network: the old version is back and has the reason."""

from driver.releases import Releases
from driver.scenarios import UPGRADED, check_revert, start_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "faulty-initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": UPGRADED}
TRIAL_TIMEOUT = 60
"""Seconds for the self-check of these releases."""


def test(world: World) -> None:
    node = world["node"]
    releases = start_installed(world, node)

    world.section("a PID 1 that ends: the old version has the failed boot's logs")
    with node.console.expect("Kernel panic"):
        image = _make(releases, "v1.15.0", "fault=exits", asset="faulty-initramfs")
        reason = r"did not start: kernel panic: Attempted to kill init! exitcode=0x00000700(?!,)"
        log = check_revert(node, image, reason)
    assert "talos.trial" in log, "the log is not that of the failed boot"

    world.section("an apid that never answers")
    image = _make(releases, "v1.15.1", asset="faulty-initramfs")
    log = check_revert(node, image, f"self-check: after {TRIAL_TIMEOUT} s: service apid is not healthy(?!;)")
    assert "talos.trial" in log, "the log is not that of the trial"

    world.section("no network")
    image = _make(releases, "v1.15.2", "initcall_blacklist=virtio_net_driver_init")
    check_revert(node, image, f"self-check: after {TRIAL_TIMEOUT} s: .*the network is not ready")


def _make(releases: Releases, version: str, arguments: str = "", asset: str = "initramfs") -> str:
    return releases.make(version, asset=asset, arguments=f"talos.trial.limit={TRIAL_TIMEOUT} {arguments}")
