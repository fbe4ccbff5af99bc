"""Under Secure Boot, from one key to another by an upgrade: firmware trusts the new one before the trial, and
starts nothing of the old one's after the verdict.

A volume that nothing but the TPM's key opens is opened throughout: that is sealed to the values of PCR 7 that
were forecast.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from driver.client import at
from driver.machine import Machine
from driver.node import Disk
from driver.owner import DISKS, LOADER, SIGNED, Owner, install_signed, make_uki
from driver.scenarios import UPGRADE_TIMEOUT, patch, read_system, volumes
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
NODES = {"node": replace(SIGNED, tpm=True, disks={**DISKS, "sealed": Disk(size="1G")})}
CERTIFICATE = "uki-signing-cert.pem"
VOLUME = """\
apiVersion: v1alpha1
kind: UserVolumeConfig
name: sealed
volumeType: disk
provisioning: {diskSelector: {match: 'disk.serial == "sealed"'}}
encryption:
  provider: luks2
  keys: [{slot: 0, tpm: {}}]
"""


def read_pcr(node: Machine) -> str:
    """PCR 7 as the kernel shows it."""
    return node.talosctl("read", "/sys/class/tpm/tpm0/pcr-sha256/7").stdout.strip().lower()


def check_volume(node: Machine) -> None:
    """The volume is open."""
    volume = volumes(node).get("u-sealed", {})
    assert at(volume, "spec.phase") == "ready", volume


def test(world: World) -> None:
    node, releases = world["node"], world.releases()
    old, new = Owner(world, "old"), Owner(world, "new")
    for each in (old, new):
        each.make_keys()

    def make(version: str, by: Owner, **updates: Path) -> str:
        """Make a release whose UKI one of the two has signed."""

        def change(archive: Path) -> Path:
            uki = make_uki(world, version, releases.initramfs(version))
            return by.sign_release(archive, uki, updates)

        return releases.make(version, change=change)

    world.section("a machine that has the old key")
    uki = install_signed(node, old, releases)
    upgrade = partial(node.client.run, "upgrade", seconds=UPGRADE_TIMEOUT)

    world.section("firmware does not take an update that the new key has signed itself")
    forged = new.make_update("forged", add=new.keys / CERTIFICATE)
    result = upgrade("--image", make("v1.15.1", new, db=forged), check=False)
    assert result.code, "an update was accepted that the firmware has no key for"
    assert "the firmware does not take the update of db" in result.stderr, result.stderr

    world.section("a release that revokes its own key is refused")
    revoked = old.make_update("revoked", revoke=old.keys / CERTIFICATE)
    result = upgrade("--image", make("v1.15.2", old, dbx=revoked), check=False)
    assert result.code, "a release was accepted that would not start again"
    assert "whose certificate is revoked" in result.stderr, result.stderr
    assert "0x40" not in node.talosctl("get", "metakeys").stdout

    world.section("a volume that nothing but the present PCR 7 opens")
    patch(node, VOLUME)
    node.wait_until("the volume is open", lambda: check_volume(node), 120)
    values = [read_pcr(node)]

    world.section("the old key lets the new one in, and is revoked after the verdict")
    added = old.make_update("added", add=new.keys / CERTIFICATE)
    result = upgrade("--image", make("v1.15.3", new, db=added, dbx=revoked))
    assert "volumes have keys for the values that PCR 7 will have" in result.stderr, result.stderr
    assert "adding to the firmware's database db" in result.stderr, result.stderr
    assert "v1.15.3 is the default" in result.stderr, result.stderr
    node.wait_for_reset()  # the upgrade's, which talosctl has seen through
    assert read_system(node) == "v1.15.3 by talos-b.efi@trial"
    values.append(read_pcr(node))
    node.wait_until("the volume is open in the trial", lambda: check_volume(node), 120)
    node.wait_for_console_text("boot loader: EFI/EFI/BOOT/BOOTX64.EFI is replaced")
    node.wait_for_console_text("the firmware starts no more what this release revokes: dbx is added to")
    node.wait_for_console_text("volume u-sealed: its key is bound to the present PCRs from now on")

    world.section("there is no way back to what the old key has signed")
    result = node.client.run("rollback", check=False)
    assert result.code, "a system was staged that the firmware does not start"
    assert "slot A: Secure Boot is on: it is signed by" in result.stderr, result.stderr
    assert "whose certificate is revoked" in result.stderr, result.stderr

    world.section("the machine starts by the new key alone")
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    node.wait_for_api(seconds=420)
    assert read_system(node) == "v1.15.3 by talos-b.efi"
    values.append(read_pcr(node))
    assert len(set(values)) == len(values), f"PCR 7 has not changed with each of the databases: {values}"
    node.wait_until("the volume is open by the new key", lambda: check_volume(node), 120)
    node.wait_for_console_text(r"volume u-sealed: \d keys for other starts were removed")
    key = node.talosctl("get", "securitystate", "-o", "jsonpath={.spec.ukiSigningKeyFingerprint}").stdout
    _, expected = new.sign(uki / LOADER)
    assert key.strip() == expected, f"SecurityState has {key!r}, not {expected!r}"
