"""What encryption costs a disk: a volume of ours, one without encryption, and what cryptsetup itself makes.

On a virtual machine, whose kernel has dm-crypt. Ratios of an emulated processor are no real one's: that has
instructions for AES, which an emulator plays one by one.
"""

import base64
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from driver.accelerator import find_accelerator
from driver.assets import Assets
from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.programs import Programs
from driver.scenarios import install, volumes, wait_for_installed
from driver.world import World
from tests.bench import disk_speed
from tests.bench.report import MEBIBYTE, Table
from tests.harness.cluster import REPOSITORY

BUILD = REPOSITORY / "build"
NEEDED = ("kernel", "initramfs", "images", "root-vm")
"""Links to packages of the flake, in the folder of builds."""
ROUNDS = 3
"""How often each device is measured, in turn."""
PATTERN_DURATION = 4.0
"""Seconds that each pattern of it takes at least."""
CALL_TIMEOUT = 300  # seconds
DISK = Disk(size="512M", raw=True)
DISKS = {"system": Disk(size="8G"), "none": DISK, "ours": DISK, "plain": DISK}
NODES = {"node": Node(hands_over_kernel=True, memory=2048, disks=DISKS)}
VOLUMES = "---\n".join(
    f"apiVersion: v1alpha1\nkind: RawVolumeConfig\nname: {name}\n"
    f"provisioning: {{diskSelector: {{match: 'disk.serial == \"{name}\"'}}, minSize: 300MiB}}\n{encryption}"
    for name, encryption in (
        ("none", ""),
        ("ours", "encryption: {provider: luks2, keys: [{slot: 0, static: {passphrase: bench}}]}\n"),
    )
)
PLAIN = "/dev/disk/by-id/virtio-plain"
"""The disk that cryptsetup makes an encrypted device of, by its own defaults."""
KEY = "printf %s bench |"
HOST = "chroot /host"
CRYPTSETUP = f"{HOST} /usr/sbin/cryptsetup"
FORMAT = (
    f"{KEY} {CRYPTSETUP} luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000"
    f" --key-file=- {PLAIN} && {KEY} {CRYPTSETUP} open --key-file=- {PLAIN} plain"
)
"""The derivation of the key takes no part in what is measured."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    for name in NEEDED:
        if not (BUILD / name).exists():
            pytest.skip(f"there is no build/{name}: nix build .#{name} --out-link build/{name}")
    programs = Programs(((BUILD / "root-vm").resolve(),))
    paths = {name: (BUILD / name).resolve() for name in NEEDED}
    made = World(
        NODES,
        programs=programs,
        assets=Assets({**paths, "cmdline": REPOSITORY / "kernel/cmdline"}),
        accelerator=find_accelerator(programs, tmp_path),
        folder=tmp_path,
        talosctl=BUILD / "bin/talosctl",
    )
    try:
        yield made
    finally:
        made.close()


def run_on(node: Machine, script: str) -> str:
    """What a script prints in a debug container; there are no commas in it."""
    [archive] = (BUILD / "images").glob("debug-*.tar")
    argv = ("debug", str(archive), "--args", f"sh,-c,{script}")
    return node.client.run(*argv, seconds=node.timeout_scale.seconds(CALL_TIMEOUT)).stdout


def measure(node: Machine, device: str) -> Mapping[str, float]:
    """Bytes a second by pattern."""
    program = base64.b64encode(Path(disk_speed.__file__).read_bytes()).decode()
    argv = f"{HOST} /usr/bin/python3.13 - {PATTERN_DURATION} {device}"
    lines = run_on(node, f"echo {program} | base64 -d | {argv}").splitlines()
    return {name: float(speed) for name, _, speed in (line.partition("\t") for line in lines) if speed}


def find_device(node: Machine, volume: str) -> str:
    """What a raw volume is used by."""
    found = volumes(node).get(volume, {})
    assert at(found, "spec.phase") == "ready", found
    return str(at(found, "spec.mountLocation") or at(found, "spec.location"))


def test_what_encryption_costs(world: World) -> None:
    node = world["node"]
    node.start()
    install(node, world.cluster(), VOLUMES)
    wait_for_installed(node)
    devices = {
        "not encrypted": node.wait_until("the plain volume is there", lambda: find_device(node, "r-none")),
        "a volume of ours": node.wait_until(
            "the encrypted volume is there", lambda: find_device(node, "r-ours")
        ),
        "cryptsetup's defaults": "/dev/mapper/plain",
    }
    run_on(node, FORMAT)
    found = {name: list[Mapping[str, float]]() for name in devices}
    for _ in range(ROUNDS):
        for name, device in devices.items():
            found[name].append(measure(node, device))
    show(found, world.accelerator.name)


def show(found: Mapping[str, Sequence[Mapping[str, float]]], processors: str) -> None:
    """The table: medians, in MiB/s."""
    patterns = tuple(found["not encrypted"][0])
    table = Table(f"An encrypted disk, MiB/s, {processors}, {os.cpu_count()} processors", patterns)
    for name, rounds in found.items():
        medians = (statistics.median(each[pattern] for each in rounds) for pattern in patterns)
        table.add(name, *(f"{speed / MEBIBYTE:.1f}" for speed in medians))
    table.show()
