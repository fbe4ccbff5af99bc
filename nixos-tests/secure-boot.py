"""Firmware takes the owner's keys; it starts our signed image, none that is changed, unsigned, another's.

The disk with it is a signed disk image, which then takes a config and keeps it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from driver.client import at
from driver.disks import make_esp
from driver.machine import Machine
from driver.node import Disk, Node
from driver.process import run
from driver.scenarios import apply_config, wait_for_installed
from driver.world import World

ASSETS = ("uki", "disk-image", "sign-efi", "sign-disk")
BLANK = Disk(size="1M")
"""What is on the disks is made below. Firmware tries them in this order."""
REFUSED = {"arguments": BLANK, "initramfs": BLANK, "unsigned": BLANK, "foreign": BLANK, "second": BLANK}
SIGNED = {"system": BLANK}
SIZE = "8G"
NODES = {"node": Node(boot="uefi", secure_boot=True, disks=REFUSED | SIGNED)}
LOADER = "EFI/BOOT/BOOTX64.EFI"
PROTECTED, UNPROTECTED = b"lockdown=confidentiality", b"lockdown=none           "
SQUASHFS = b"hsqs"
"""How the system image begins, in the initramfs."""

DENIED = re.compile(r"BdsDxe: failed to load (Boot\d+) .*: Access Denied")
SECOND_DENIED = re.compile(r"Error loading \\EFI\\Linux\\.*\.efi: Access denied")


@dataclass(frozen=True, slots=True)
class Owner:
    """Someone with keys, who signs."""

    world: World
    name: str

    @property
    def keys(self) -> Path:
        return self.world.folder / f"keys-{self.name}"

    def make_keys(self) -> None:
        for kind in ("uki", "database"):
            files = ["--enrolled-certificate", "--signing-certificate", "--signing-key"]
            names = [self.keys / f"uki-signing-{part}.pem" for part in ("cert", "cert", "key")]
            named = [str(word) for pair in zip(files, names, strict=True) for word in pair]
            argv = ["gen", "secureboot", kind, "--output", str(self.keys)]
            run([str(self.world.talosctl), *argv, *(named if kind == "database" else ())], seconds=120)

    def sign(self, image: Path) -> tuple[bytes, str]:
        """A signed copy, and the key as the program shows it."""
        out = self.world.folder / f"{self.name}-{image.name}"
        argv = ["--key", f"{self.keys}/uki-signing-key.pem"]
        argv += ["--certificate", f"{self.keys}/uki-signing-cert.pem", "--out", str(out), str(image)]
        done = run([str(self.world.assets.path("sign-efi") / "bin/sign-efi"), *argv], seconds=120)
        return out.read_bytes(), done.stdout.split()[-1]

    def sign_disk(self, disk: Path) -> None:
        """The disk image, signed, in the place of a machine's disk."""
        assets, raw = self.world.assets, self.world.folder / "signed.raw"
        argv = ["--keys", str(self.keys), "--uki", str(assets.path("uki")), "--out", str(raw)]
        image = assets.path("disk-image") / "disk.raw"
        run([str(assets.path("sign-disk") / "bin/sign-disk"), *argv, str(image)], seconds=120)
        qemu_img = self.world.programs.argv("qemu-img")
        run([*qemu_img, "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)], seconds=120)
        run([*qemu_img, "resize", "-q", str(disk), SIZE])
        raw.unlink()


def change(image: bytes, part: bytes, other: bytes) -> bytes:
    """A copy with a part, of which there is one, replaced by another of its size."""
    assert len(part) == len(other)
    assert image.count(part) == 1
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
    owner.sign_disk(disks["system"])
    node.start(node=replace(node.node, disks=SIGNED))
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    node.crash()

    world.section("it refuses what is changed, unsigned or another's, and starts what is on the last disk")
    start = signed.index(SQUASHFS)
    head = signed[start : start + 256]
    make_disk("arguments", {LOADER: change(signed, PROTECTED, UNPROTECTED)})
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
