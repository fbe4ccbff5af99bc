"""A release as what is installed: its parts, and what it must have."""

import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.machined.api.conftest import FakeProcesses, make_upgrader

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiskSpec, SystemDiskSpec
from talos.disks.install import release as installer
from talos.disks.install.release import install_release, make_source
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.block.layout import GIB, MINIMUM_SIZE
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.testing.mounts import MemoryMounts
from talos.upgrade.release.archive import read_annotations, read_archive
from talos.upgrade.release.layer import Release, check_layer
from talos.upgrade.release.main import main
from talos.upgrade.release.manifest import parse_release
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.container import FolderSlots
from talos.upgrade.slots.folder import SlotFolder
from talos.upgrade.slots.grub.disk import SystemDisk

FILES = {
    "vmlinuz": b"kernel" * 5000,
    "initramfs": b"0707" * 9000,
    "cmdline": b"pti=on\n",
    "boot.img": b"B" * 512,
    "core.img": b"C" * 3000,
    "BOOTX64.EFI": b"MZ" * 100,
}


def make_release(folder: Path, files: Mapping[str, bytes], version: str = "v1.15.1") -> Release:
    """A release of these files, as it is loaded from containerd."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    out = folder / "release.tar"
    assert (
        main(["make", "--version", version, "--out", str(out), *(str(folder / name) for name in files)]) == 0
    )
    _, document = read_archive(out)
    manifest = parse_release(read_annotations(document["annotations"], "test")[0])
    with tarfile.open(out) as tar:
        tar.extractall(folder / "image", filter="data")
    digest = document["layers"][0]["digest"].partition(":")[2]
    layer = check_layer(folder / "image/blobs/sha256" / digest, manifest)
    return Release(name=f"installer:{version}", manifest=manifest, layer=layer)


def test_a_release_is_a_source(tmp_path: Path) -> None:
    source = make_source(make_release(tmp_path, FILES))
    assert (source.version, source.has_kernel, source.boot.cmdline) == ("v1.15.1", True, "pti=on")
    assert (source.boot.boot, source.boot.efi) == (FILES["boot.img"], FILES["BOOTX64.EFI"])
    assert b"".join(source.read_kernel()) == FILES["vmlinuz"]
    assert b"".join(source.read_initramfs()) == FILES["initramfs"]
    assert len(source.hash_kernel()) == len(source.hash_initramfs()) == 64


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("core.img", None, "image installer:v1.15.1: it lacks core.img, so it can't be installed"),
        ("boot.img", b"B" * 513, "its boot.img has more than 512 bytes"),
        ("boot.img", b"B" * 511, "it holds no boot loader"),
        ("cmdline", b"a" * 2049, "its cmdline has more than 2048 bytes"),
    ],
)
def test_a_release_that_can_not_be_installed(
    tmp_path: Path, name: str, data: bytes | None, reason: str
) -> None:
    files = {**FILES, name: data} if data else {key: value for key, value in FILES.items() if key != name}
    release = make_release(tmp_path, files)
    with pytest.raises(UserError) as caught:
        make_source(release)
    assert reason in str(caught.value)


async def make_upgrades() -> Upgrades:
    """A machine with three disks, none of which is there: an installation that begins fails otherwise."""
    found = make_upgrader()
    for name, size in (("none-a", 8 * GIB), ("none-b", MINIMUM_SIZE - 1), ("none-c", 8 * GIB)):
        spec = DiskSpec(size=size, sector_size=512, dev_path=f"/dev/{name}", model="QEMU")
        await put(found.state, kinds.DISK, name, spec)
    content = DiscoveredVolumeSpec(name="xfs", size=8 * GIB, dev_path="/dev/none-c")
    await put(found.state, kinds.DISCOVERED_VOLUME, "none-c", content)
    return found


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        ("/dev/none-z", r"there is no disk /dev/none-z \(disks: .*/dev/none-a: model QEMU, 8 GiB"),
        ("none-a", "there is no disk none-a"),
        ("/dev/none-b", r"/dev/none-b: .* is too small, the partitions need 4\.2 GiB"),
        ("/dev/none-c", r"is not empty: xfs \(talosctl wipe disk none-c erases it\)"),
    ],
)
async def test_a_disk_that_is_not_installed_to(tmp_path: Path, disk: str, reason: str) -> None:
    upgrades, lines = await make_upgrades(), list[str]()
    with pytest.raises(UserError, match=rf"destination\.disk: .*{reason}"):
        await install_release(upgrades, make_release(tmp_path, FILES), disk, lines.append)
    assert lines == []


async def test_a_disk_in_use_is_not_installed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_busy(path: str) -> bool:
        return path == "/dev/none-a"

    upgrades = await make_upgrades()
    monkeypatch.setattr(installer, "is_device_busy", is_busy)
    with pytest.raises(UserError, match="is in use"):
        await install_release(upgrades, make_release(tmp_path, FILES), "/dev/none-a", lambda _: None)


async def test_a_release_of_another_architecture_is_not_installed(tmp_path: Path) -> None:
    upgrades = await make_upgrades()
    release = make_release(tmp_path, FILES)
    foreign = replace(release, manifest=replace(release.manifest, architecture="arm64"))
    with pytest.raises(UserError, match="the release is for arm64, this machine is amd64"):
        await install_release(upgrades, foreign, "/dev/none-a", lambda _: None)


async def test_a_platform_without_disks_is_not_installed_to(tmp_path: Path) -> None:
    upgrades = await make_upgrades()
    upgrades.slots = FolderSlots(SlotFolder(tmp_path / "slots"))
    with pytest.raises(UserError, match="this platform has no disks to install to"):
        await install_release(upgrades, make_release(tmp_path, FILES), "/dev/none-a", lambda _: None)


async def test_what_is_said_before_the_first_byte_is_written(tmp_path: Path) -> None:
    upgrades, lines = await make_upgrades(), list[str]()
    with pytest.raises(FileNotFoundError, match="none-a"):
        await install_release(upgrades, make_release(tmp_path, FILES), "/dev/none-a", lines.append)
    assert lines[:2] == [
        "The system will be installed to /dev/none-a: model QEMU, 8 GiB",
        "  chosen by destination.disk: /dev/none-a",
    ]
    assert lines[-1].startswith("erasing what is on the disk"), "and it ends with what it was doing"


async def test_a_slot_is_not_written_without_a_system_disk_or_with_endless_arguments(tmp_path: Path) -> None:
    state, log = MemoryState(), Log(write=lambda _: None)
    slots = SystemDisk(state, FakeProcesses().capture, MemoryMounts(), log)
    for call in (slots.read, slots.update_boot_loader):
        with pytest.raises(UserError, match="upgrade: there is no system disk"):
            await call()
    await put(state, *ids.SYSTEM_DISK, SystemDiskSpec(dev_path="/dev/none-a", disk_id="none-a"))
    release = make_release(tmp_path, {**FILES, "cmdline": b"a" * 2049})
    with pytest.raises(UserError, match=r"image installer:v1\.15\.1: its cmdline is too long"):
        await slots.prepare(release, "B")
