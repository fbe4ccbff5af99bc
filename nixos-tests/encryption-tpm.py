"""Volumes whose keys the TPM has sealed open at each boot, and not when another firmware has started.

Then another slot opens the volume that has one, and the machine stays manageable.
"""

from dataclasses import replace

from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import apply_config, check_diagnostic, volumes, wait_for_installed
from driver.world import World

ASSETS = ("disk-image",)
IMAGE = Disk(asset="disk-image", file="disk.qcow2", size="8G")
NODES = {"node": Node(boot="uefi", tpm=True, disks={"system": IMAGE})}
PCRS = [0, 7]
"""The firmware's code, and the state of Secure Boot."""
CHANGED = "PCRs 0, 7 have changed since the key was sealed"
ENCRYPTED = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: STATE
encryption: {provider: luks2, keys: [{slot: 0, tpm: {options: {pcrs: [0, 7]}}}, {slot: 1, nodeID: {}}]}
---
apiVersion: v1alpha1
kind: VolumeConfig
name: EPHEMERAL
encryption: {provider: luks2, keys: [{slot: 3, lockToState: true, tpm: {options: {pcrs: [0, 7]}}}]}
"""
UUID = "2f1d4e0a-7c39-4b58-9d6e-81c5a3f0b742"


def check_opened(node: Machine, name: str, slot: int, failed: list[str]) -> None:
    """A volume was opened by a slot; why others are not as configured."""
    volume = volumes(node).get(name, {})
    assert at(volume, "spec.phase") == "ready", volume
    assert at(volume, "spec.encryptionProvider") == "luks2", volume
    assert int(str(at(volume, "spec.encryptionSlot") or 0)) == slot, volume
    assert (at(volume, "spec.encryptionFailedSyncs") or []) == failed, volume


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()
    usual = replace(node.node, uuid=UUID)
    other = replace(usual, secure_boot=True)  # the same firmware, built otherwise

    world.section("volumes are made with keys that the TPM has sealed")
    node.start(node=usual)
    node.wait_for_api(insecure=True)
    apply_config(node, cluster, ENCRYPTED)
    wait_for_installed(node)
    check_opened(node, "STATE", 0, [])
    check_opened(node, "EPHEMERAL", 3, [])
    state = volumes(node)["STATE"]
    assert at(state, "spec.tpmEncryptionOptions.pcrs") == PCRS, state

    world.section("they open at the next boot")
    node.crash()
    node.start(node=usual)
    node.wait_for_console_text(r"volume STATE: unlocked.*slot 0 \(tpm\)", 240)
    node.wait_for_console_text(r"volume EPHEMERAL: unlocked.*slot 3 \(tpm\)", 240)

    world.section("another firmware has started: what has no other slot stays closed, and is shown")
    node.crash()
    node.start(node=other)
    node.wait_for_console_text(rf"EPHEMERAL.*slot 3 \(tpm\): {CHANGED}", 240)
    node.wait_for_api()
    sealed = f"error updating key slot 0: {CHANGED}"
    node.wait_until("STATE is open", lambda: check_opened(node, "STATE", 1, [sealed]))
    volume = volumes(node)["EPHEMERAL"]
    reason = f"EPHEMERAL: {at(volume, 'spec.location')} can't be unlocked: slot 3 (tpm): {CHANGED}"
    assert at(volume, "spec.phase") == "failed", volume
    assert at(volume, "spec.errorMessage") == reason, volume
    check_diagnostic(node, rf"slot 3 \(tpm\): {CHANGED}")
