"""Volumes are encrypted from their first write on, open at each boot, and stay closed on another machine.

Those with a key of a service in the network wait for it, and hold no others back.
"""

from dataclasses import replace

from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import install, make_removal, patch, read_log, volumes, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "kms")
RESTART_TIMEOUT = 300  # seconds
UUID = "2f1d4e0a-7c39-4b58-9d6e-81c5a3f0b742"
OTHER_UUID = "c0a86b1e-55d2-4f97-8e3b-1a74d9260f3c"
NODES = {
    "node": Node(
        hands_over_kernel=True,
        memory=2048,
        uuid=UUID,
        disks={"system": Disk(size="8G"), "data": Disk(size="1G"), "old": Disk(size="1G")},
    )
}
STATE = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: STATE
encryption:
  provider: luks2
  keys: [{slot: 0, nodeID: {}}]
"""
EPHEMERAL = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: EPHEMERAL
provisioning: {maxSize: 3GiB}
encryption:
  provider: luks2
  keys:
    - {slot: 0, static: {passphrase: FIRST}}
    - {slot: 1, nodeID: {}}
  options: [no_read_workqueue]
"""
WITHOUT_EPHEMERAL = make_removal("VolumeConfig", "EPHEMERAL")
"""A patch adds to a list of keys."""
DATA = """\
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
volumeType: disk
provisioning: {diskSelector: {match: 'disk.serial == "data"'}}
encryption:
  provider: luks2
  keys: [{slot: 0, lockToState: true, static: {passphrase: of the data}}]
"""
SWAP = """\
apiVersion: v1alpha1
kind: SwapVolumeConfig
name: one
provisioning: {diskSelector: {match: system_disk}, minSize: 256MiB, maxSize: 256MiB}
encryption:
  provider: luks2
  keys: [{slot: 0, nodeID: {}}]
---
apiVersion: v1alpha1
kind: ZswapConfig
"""
RAW = """\
apiVersion: v1alpha1
kind: RawVolumeConfig
name: two
provisioning: {diskSelector: {match: system_disk}, maxSize: 128MiB}
encryption:
  provider: luks2
  keys: [{slot: 0, lockToState: true, kms: {endpoint: "KMS"}}]
"""
WITHOUT_STATE = make_removal("VolumeConfig", "STATE")
STATE_BY_SERVICE = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: STATE
encryption:
  provider: luks2
  keys: [{slot: 1, kms: {endpoint: "KMS"}}]
"""
OLD = """\
machine:
  disks:
    - device: /dev/disk/by-id/virtio-old
      partitions: [{mountpoint: /var/mnt/old, size: 200MiB}, {mountpoint: /var/lib/more}]
"""


def check_devices(node: Machine) -> None:
    """The kernel swaps to an encrypted device; a raw volume and the partitions of another disk are there."""
    found = volumes(node)
    for name in ("r-two", "/dev/vdc-1", "/dev/vdc-2"):
        assert at(found.get(name, {}), "spec.phase") == "ready", found.get(name, sorted(found))
    mapped = at(found.get("s-one", {}), "spec.mountLocation")
    swaps = [(at(swap, "spec.device"), at(swap, "spec.type")) for swap in node.get("swapstatus")]
    assert swaps == [(mapped, "partition")]
    assert [at(zswap, "spec.totalSizeHuman") for zswap in node.get("zswapstatus")], "zswap is off"


def check_encrypted(node: Machine, slots: dict[str, int]) -> None:
    """These volumes are ready and encrypted, each opened by a slot, and their keys are as configured."""
    found = volumes(node)
    for name, slot in slots.items():
        volume = found.get(name, {})
        assert at(volume, "spec.phase") == "ready", volume
        assert at(volume, "spec.encryptionProvider") == "luks2", volume
        assert int(str(at(volume, "spec.encryptionSlot") or 0)) == slot, volume
        assert str(at(volume, "spec.mountLocation")).startswith("/dev/dm-"), volume
        assert not at(volume, "spec.encryptionFailedSyncs"), volume


def check_restarted(node: Machine, before: str) -> None:
    assert node.boot_id() != before


def test(world: World) -> None:
    node = world["node"]
    own = node.node
    cluster = world.cluster()

    world.section("a machine is installed with encrypted volumes")
    node.start()
    install(node, cluster, STATE, EPHEMERAL.replace("FIRST", "one"))
    wait_for_installed(node)
    node.wait_until("they are encrypted", lambda: check_encrypted(node, {"STATE": 0, "EPHEMERAL": 0}))
    machine_id, log = node.client.run("read", "/etc/machine-id").stdout, read_log(node)

    world.section("a user's volume whose key is locked to STATE, and another key of EPHEMERAL")
    patch(node, DATA)
    patch(node, WITHOUT_EPHEMERAL, EPHEMERAL.replace("FIRST", "two"))
    world.kms.start()
    patch(node, SWAP + "---\n" + RAW.replace("KMS", world.kms.url))
    patch(node, OLD)
    wanted = {"STATE": 0, "EPHEMERAL": 0, "u-data": 0, "s-one": 0}
    by_service = {"r-two": 0}
    node.wait_until("the user's volume is there", lambda: check_encrypted(node, wanted))
    node.wait_until("swap and a raw volume are there", lambda: check_devices(node))
    node.wait_until("the raw volume is encrypted", lambda: check_encrypted(node, by_service))
    node.wait_for_console_text(r"volume EPHEMERAL: a key was written.*slot 0 \(static\)")

    world.section("restarted without the service: everything else opens, and nothing is lost")
    world.kms.stop()
    before = node.boot_id()
    node.talosctl("reboot", "--wait=false")
    node.wait_until("it has restarted", lambda: check_restarted(node, before), RESTART_TIMEOUT)
    wait_for_installed(node)
    node.wait_until("all are opened", lambda: check_encrypted(node, wanted))
    node.wait_for_console_text(r"volume r-two: can't be used.*slot 0 \(kms\): grpc://.*connection refused")
    world.kms.start()
    node.wait_until("swap and the raw volume are there again", lambda: check_devices(node))
    node.wait_until("the raw volume is opened", lambda: check_encrypted(node, by_service))
    assert node.client.run("read", "/etc/machine-id").stdout == machine_id, "STATE is lost"
    assert read_log(node) == log, "EPHEMERAL is lost"

    world.section("the disks in another machine: STATE stays closed, and the machine can be managed")
    node.crash()
    node.client.talosconfig = None
    node.start(node=replace(own, uuid=OTHER_UUID))
    node.wait_for_console_text(r"STATE.*slot 0 \(nodeID\): encryption key rejected")
    node.wait_for_api(insecure=True)
    node.talosctl("get", "disks", insecure=True)

    world.section("back in its own, the volumes are there")
    node.crash()
    node.client.talosconfig = cluster.talosconfig
    node.start(node=own)
    wait_for_installed(node)
    assert read_log(node) == log, "EPHEMERAL is lost"

    world.section("STATE by a service, which comes back when the machine is in maintenance mode")
    patch(node, WITHOUT_STATE, STATE_BY_SERVICE.replace("KMS", world.kms.url))
    node.wait_for_console_text(r"volume STATE: a key was removed.*slot=0")
    world.kms.stop()
    before = node.boot_id()
    node.talosctl("reboot", "--wait=false")
    node.wait_for_console_text(r"volume STATE: can't be used.*slot 1 \(kms\): grpc://", RESTART_TIMEOUT)
    node.wait_for_console_text(r"entering maintenance mode")
    world.kms.start()
    wait_for_installed(node)
    check_restarted(node, before)
    node.wait_until(
        "STATE is opened", lambda: check_encrypted(node, {"STATE": 1, "EPHEMERAL": 0, **by_service})
    )
    assert read_log(node) == log, "EPHEMERAL is lost"
