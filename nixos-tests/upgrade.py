"""Upgrades that hold and that do not; what is not signed or altered is refused before a byte is written."""

from dataclasses import replace
from functools import partial

from driver.boot_loader import change_boot_loader, read_boot_loader
from driver.node import Disk
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_crash,
    check_diagnostic,
    read_version,
    start_installed,
)
from driver.system_image import flip_unread_bit
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "extensions", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", raw=True)})}
KEPT = "kept over upgrades"
API_IS_UP = "service[apid](Running): Health check successful"
CORRUPT = r"kernel panic: dm-verity device corrupted, after: verity: .*data block \d+ is corrupted"


def test(world: World) -> None:
    node = world["node"]
    disk = node.disk("system")
    releases = start_installed(world, node, partial(change_boot_loader, world.programs, disk))
    old = read_boot_loader(world.programs, disk)
    assert read_version(node) == INSTALLED_VERSION
    node.talosctl("meta", "write", "0x0c", KEPT)

    world.section("what may not be installed")
    # They are never started.
    make_small = partial(releases.make, asset="", kernel=bytes(1 << 20))
    for version, reason, image in (
        ("v1.15.1", "is not signed", make_small("v1.15.1", signed=False)),
        ("v1.15.2", "has the digest", make_small("v1.15.2", altered=True)),
        ("v1.17.0", "minor versions are skipped", make_small("v1.17.0")),
    ):
        result = node.client.run("upgrade", "--image", image, check=False, seconds=UPGRADE_TIMEOUT)
        assert result.code, f"{version} was accepted"
        assert reason in result.stderr, result.stderr
    assert "0x40" not in node.talosctl("get", "metakeys").stdout

    world.section("an upgrade")
    image = releases.make("v1.15.3")
    result = node.client.run("upgrade", "--image", image, seconds=UPGRADE_TIMEOUT)
    world.show(result.stderr)
    assert "v1.15.3 is the default" in result.stderr
    assert read_version(node) == "v1.15.3 in B"
    node.wait_for_reset()  # the upgrade's, which talosctl has seen through
    new = read_boot_loader(world.programs, disk)
    assert new.place != old.place, "the core that was started is overwritten"
    assert (new.core[-1], old.core[-1]) == (0, 0xA5), "the core is not the release's"
    assert old.efi == new.efi + b"an older release's"

    world.section("staged: a flipped bit in a part that nothing reads; the default is what boots then")
    damaged = world.folder / "damaged"
    damaged.write_bytes(flip_unread_bit(world.assets.path("extensions").read_bytes()))
    broken = releases.make("v1.15.4", extensions=damaged)
    with node.console.expect("Kernel panic"):
        result = node.client.run(
            "upgrade", "--stage", "--preserve", "--image", broken, check=False, seconds=UPGRADE_TIMEOUT
        )
        assert result.code, "talosctl takes a reverted upgrade for a success"
    assert "ended before its self-check was done" in result.stderr, result.stderr
    assert read_version(node) == "v1.15.3 in B"
    assert read_boot_loader(world.programs, disk) == new, "a release that was not proved replaced it"
    check_diagnostic(node, CORRUPT)
    assert KEPT in node.talosctl("get", "metakeys", "-o", "yaml").stdout
    node.wait_for_console_text("the upgrade to v1.15.4 was reverted")
    assert API_IS_UP in check_crash(node, CORRUPT), "the damage was found by something else"
