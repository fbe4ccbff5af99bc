"""Firmware takes the owner's keys; it starts our signed image, none that is changed, unsigned, another's.

The disk with it is a signed disk image, which then takes a config and keeps it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from driver.client import at
from driver.disks import make_esp
from driver.machine import Machine
from driver.node import Disk, Node
from driver.owner import LOADER, Owner
from driver.scenarios import apply_config, wait_for_installed
from driver.world import World

ASSETS = ("uki", "disk-image", "sign-efi", "sign-disk")
BLANK = Disk(size="1M")
"""What is on the disks is made below. Firmware tries them in this order."""
REFUSED = {"arguments": BLANK, "initramfs": BLANK, "unsigned": BLANK, "foreign": BLANK, "second": BLANK}
SIGNED = {"system": BLANK}
SIZE = "8G"
NODES = {"node": Node(boot="uefi", secure_boot=True, disks=REFUSED | SIGNED)}
PROTECTED, UNPROTECTED = b"lockdown=confidentiality", b"lockdown=none           "
SQUASHFS = b"hsqs"
"""How the system image begins, in the initramfs."""

DENIED = re.compile(r"BdsDxe: failed to load (Boot\d+) .*: Access Denied")
SECOND_DENIED = re.compile(r"Error loading \\EFI\\Linux\\.*\.efi: Access denied")


def change(image: bytes, part: bytes, other: bytes, count: int = 1) -> bytes:
    """A copy with a part, which is there so often, replaced by another of its size."""
    assert len(part) == len(other)
    assert image.count(part) == count
    return image.replace(part, other)


def test(world: World) -> None:
    node = world["node"]
    owner, other = Owner(world, "owner"), Owner(world, "other")
    (image,) = world.assets.path("uki").glob("EFI/Linux/*.efi")
    for each in (owner, other):
        each.make_keys()
    signed, key = owner.sign(image)
    loader, _ = owner.sign(world.assets.path("uki") / LOADER)
    foreign_loader, _ = other.sign(world.assets.path("uki") / LOADER)
    foreign, _ = other.sign(image)

    disks = {name: node.disk(name) for name in node.node.disks}

    def make_disk(name: str, files: Mapping[str, bytes]) -> None:
        make_esp(world.programs, world.folder, disks[name], files)

    world.section("firmware in setup mode takes the keys that systemd-boot finds beside itself")
    owner.sign_disk(world.assets.path("uki"), disks["system"], SIZE)
    node.start(node=replace(node.node, disks=SIGNED))
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    node.crash()

    world.section("it refuses what is changed, unsigned or another's, and starts what is on the last disk")
    start = signed.index(SQUASHFS)
    head = signed[start : start + 256]
    make_disk("arguments", {LOADER: change(signed, PROTECTED, UNPROTECTED, count=2)})
    make_disk("initramfs", {LOADER: change(signed, head, head[:-1] + bytes([head[-1] ^ 1]))})
    make_disk("unsigned", {LOADER: image.read_bytes()})
    make_disk("foreign", {LOADER: foreign_loader})
    make_disk("second", {LOADER: loader, f"EFI/Linux/{image.name}": foreign})
    node.start(node=replace(node.node, disks=REFUSED | SIGNED))
    node.wait_for_api(insecure=True, seconds=420)  # an emulated firmware reads and hashes 300 MB
    lines = [line.text for line in node.console.lines()]
    refused = {found[1] for line in lines if (found := DENIED.search(line))}
    assert len(refused) == len(REFUSED) - 1, refused
    assert any(map(SECOND_DENIED.search, lines)), "systemd-boot has started another owner's image"

    check_state(node, key, insecure=True)

    world.section("the same disk takes a config")
    apply_config(node, world.cluster())
    wait_for_installed(node)
    check_state(node, key)


def check_state(node: Machine, key: str, *, insecure: bool = False) -> None:
    """The system has Secure Boot on, and the key that has signed what was started."""
    (state,) = node.get("securitystate", insecure=insecure)
    names = ("secureBoot", "bootedWithUKI", "ukiSigningKeyFingerprint")
    shown = [at(state, f"spec.{name}") for name in names]
    assert shown == [True, True, key], shown
