"""Volumes that the TPM opens for images whose PCR 11 their owner has signed: through an upgrade, alone.

A release that would not open them is refused before anything is written.
"""

from functools import partial
from pathlib import Path

from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.owner import Owner, make_uki
from driver.releases import FIRST
from driver.scenarios import UPGRADE_TIMEOUT, apply_config, set_mirrors, volumes, wait_for_installed
from driver.world import World

ASSETS = (
    "kernel",
    "initramfs",
    "cmdline",
    "disk-image",
    "release-tool",
    "uki-tools",
    "sign-disk",
    "sign-efi",
    "sign-release",
)
NODES = {
    "node": Node(
        boot="uefi",
        secure_boot=True,
        tpm=True,
        watchdog=True,
        memory=2048,
        disks={"system": Disk(size="1M")},
    )
}
"""What is on the disk is made below."""
SLOTS = {"STATE": 0, "EPHEMERAL": 2}
ENCRYPTED = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: STATE
encryption: {provider: luks2, keys: [{slot: 0, tpm: {}}]}
---
apiVersion: v1alpha1
kind: VolumeConfig
name: EPHEMERAL
encryption: {provider: luks2, keys: [{slot: 2, tpm: {options: {pcrs: []}}}]}
"""
PCRS = {"STATE": [7], "EPHEMERAL": []}


def check_opened(node: Machine) -> None:
    """Both volumes are open, bound to the signed policy; then the TPM is locked."""
    for name, slot in SLOTS.items():
        volume = volumes(node).get(name, {})
        assert at(volume, "spec.phase") == "ready", volume
        assert int(str(at(volume, "spec.encryptionSlot") or 0)) == slot, volume
        assert (at(volume, "spec.tpmEncryptionOptions.pcrs") or []) == PCRS[name], volume
        assert at(volume, "spec.tpmEncryptionOptions.pubKeyPcrs") == [11], volume
        assert not at(volume, "spec.encryptionFailedSyncs"), volume
    assert not node.get("pcrstatus"), "the TPM is not locked"


def test(world: World) -> None:
    node, releases, cluster = world["node"], world.releases(), world.cluster()
    owner, other = Owner(world, "owner"), Owner(world, "other")
    owner.make_keys()
    owner.make_policy_key()
    other.make_policy_key()
    for path in owner.keys.iterdir():  # who signs programs is the same for both
        if path.name != "pcr-signing-key.pem":
            (other.keys / path.name).write_bytes(path.read_bytes())

    def make(version: str, by: Owner) -> str:
        def change(archive: Path) -> Path:
            return by.sign_release(archive, make_uki(world, version, releases.initramfs(version)))

        return releases.make(version, change=change)

    world.section("a signed disk image makes its volumes, with keys that the TPM has sealed")
    owner.sign_disk(make_uki(world, FIRST, releases.initramfs(FIRST)), node.disk("system"), "8G")
    node.start()
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    node.wait_for_api(insecure=True, seconds=420)
    (shown,) = node.get("pcrstatus", insecure=True)
    assert at(shown, "metadata.id") == "11", shown
    (state,) = node.get("securitystate", insecure=True)
    assert at(state, "spec.pcrSigningKeyFingerprint"), state
    apply_config(node, cluster, ENCRYPTED)
    wait_for_installed(node)
    set_mirrors(node, releases)
    node.wait_until("the volumes are open", lambda: check_opened(node))

    world.section("a release that would not open them is refused")
    upgrade = partial(node.client.run, "upgrade", seconds=UPGRADE_TIMEOUT)
    result = upgrade("--image", make("v1.15.1", other), check=False)
    assert result.code, "it was accepted"
    reason = "slot 2 (tpm): the image's policy of PCR 11 is signed by another key"
    assert f"it would not open the volume EPHEMERAL: {reason}" in result.stderr, result.stderr
    assert "0x40" not in node.talosctl("get", "metakeys").stdout

    world.section("an upgrade: the trial opens them, and the default after it")
    result = upgrade("--image", make("v1.15.2", owner))
    assert "v1.15.2 is the default" in result.stderr, result.stderr
    node.wait_until("the volumes are open", lambda: check_opened(node))
    node.crash()
    node.start()
    for name, slot in SLOTS.items():
        node.wait_for_console_text(rf"volume {name}: unlocked.*slot {slot} \(tpm\)", 420)
    wait_for_installed(node)
    node.wait_until("the volumes are open", lambda: check_opened(node))
