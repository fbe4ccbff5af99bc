"""Under Secure Boot, by systemd-boot: an upgrade, a revert, a rollback; what firmware would not start is
refused.

Each release has a systemd-boot of its own, with another time in its header: it is tried once, by BootNext.
"""

import struct
from functools import partial
from pathlib import Path

from driver.owner import LOADER, SIGNED, Owner, install_signed, make_uki
from driver.scenarios import (
    UPGRADE_TIMEOUT,
    check_diagnostic,
    read_boot_entries,
    read_system,
)
from driver.tiny_loader import make_loader
from driver.world import World

ASSETS = (
    "kernel",
    "initramfs",
    "cmdline",
    "release-tool",
    "uki-tools",
    "sign-efi",
    "sign-release",
)
NODES = {"node": SIGNED}
TRIED = "the release's boot loader is tried once, by the firmware's entry Boot"
BROKEN = "this boot loader returns an error"
PE_OFFSET, LINK_DATE = 0x3C, 8
"""Places in a PE file: of its header's offset; within that header, of its time."""


def date_program(program: bytes, seconds: int) -> bytes:
    """The same EFI program with another time in its header, and so with another digest."""
    data = bytearray(program)
    (header,) = struct.unpack_from("<I", data, PE_OFFSET)
    struct.pack_into("<I", data, header + LINK_DATE, seconds)
    return bytes(data)


def test(world: World) -> None:
    node, releases = world["node"], world.releases()
    owner, other = Owner(world, "owner"), Owner(world, "other")
    for each in (owner, other):
        each.make_keys()

    def make(version: str, by: Owner = owner, arguments: str = "", loader: bytes = b"") -> str:
        """Make a release whose UKI one of the two has signed; ``loader`` is another systemd-boot."""

        def change(archive: Path) -> Path:
            uki = make_uki(world, version, releases.initramfs(version), arguments)
            path = uki / LOADER
            path.write_bytes(loader or date_program(path.read_bytes(), int(version.rpartition(".")[2])))
            return by.sign_release(archive, uki)

        return releases.make(version, change=change)

    world.section("a stick with signed programs: the keys are enrolled, and it installs itself to the disk")
    install_signed(node, owner, releases)
    entries = read_boot_entries(node)
    assert entries, "the firmware has no boot entries"

    def check_entries() -> None:
        assert read_boot_entries(node) == entries, "the entries are not what they were"

    world.section("what firmware would not start is refused before anything is written")
    for version, reason, image in (
        (
            "v1.15.1",
            "lacks vmlinuz.efi, the signed UKI",
            releases.make("v1.15.1", asset="", kernel=bytes(4096)),
        ),
        ("v1.15.2", "whose certificate the firmware does not have", make("v1.15.2", other)),
    ):
        result = node.client.run("upgrade", "--image", image, check=False, seconds=UPGRADE_TIMEOUT)
        assert result.code, f"{version} was accepted"
        assert reason in result.stderr, result.stderr
    assert "0x40" not in node.talosctl("get", "metakeys").stdout

    world.section("an upgrade, which begins with its systemd-boot")
    upgrade = partial(node.client.run, "upgrade", seconds=UPGRADE_TIMEOUT)
    result = upgrade("--image", make("v1.15.3"))
    assert TRIED in result.stderr, result.stderr
    assert "v1.15.3 is the default" in result.stderr, result.stderr
    assert read_system(node) == "v1.15.3 by talos-b.efi@trial"
    node.wait_for_console_text("boot loader: EFI/EFI/BOOT/BOOTX64.EFI is replaced")
    node.wait_until("the entry is gone", check_entries)

    world.section("a kernel that panics before it starts a program: the default is started again")
    with node.console.expect("Kernel panic"):
        image = make("v1.15.4", arguments="rdinit=/none root=/dev/none")
        result = upgrade("--image", image, check=False)
    assert result.code, f"talosctl takes a reverted upgrade for a success: {result.stderr}"
    assert read_system(node) == "v1.15.3 by talos-b.efi"
    check_diagnostic(node, r"v1.15.4 in slot A did not start: ")
    node.wait_until("the entry is gone", check_entries)

    world.section("a systemd-boot that does not start: the present one starts the new system, and stays")
    result = upgrade("--image", make("v1.15.5", loader=make_loader(BROKEN)))
    assert TRIED in result.stderr, result.stderr
    assert read_system(node) == "v1.15.5 by talos-a.efi@trial", result.stderr
    node.wait_for_console_text(BROKEN)
    node.wait_for_console_text("boot loader: the upgrade's boot loader did not come up")
    node.wait_until("the entry is gone", check_entries)

    world.section("back to what is in the other slot")
    node.talosctl("rollback")
    node.wait_for_reset()
    node.wait_for_api(seconds=420)
    node.wait_for_console_text("v1.15.3 in slot B is the default from now on", 300)
    assert read_system(node) == "v1.15.3 by talos-b.efi@trial"
