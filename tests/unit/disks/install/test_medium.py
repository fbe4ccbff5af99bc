"""The medium that a UKI was started from: which one it is, and where its files are."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import override

import pytest

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.disks.install import medium as module
from talos.disks.install.medium import Medium, find_medium, open_medium
from talos.system.errors import UserError
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts

PARTITION = "2f5a6258-b983-e144-af1e-ba8ec0aa70dc"
STICK = DiscoveredVolumeSpec(name="vfat", dev_path="/dev/sdb1", partition_uuid=PARTITION)
DRIVE = DiscoveredVolumeSpec(name="iso9660", label="TALOS", dev_path="/dev/sr0")
SYSTEM = DiscoveredVolumeSpec(name="vfat", label="EFI", dev_path="/dev/vda1", partition_uuid="other")


@pytest.mark.parametrize(
    ("volumes", "partition", "found"),
    [
        ([SYSTEM, DRIVE, STICK], PARTITION.upper(), Medium(device="/dev/sdb1")),
        ([SYSTEM, DRIVE, STICK], "", Medium(device="/dev/sr0", is_iso=True)),
        # An ISO on a disk: firmware reads its partition table, the system does not.
        ([SYSTEM, DRIVE], PARTITION, Medium(device="/dev/sr0", is_iso=True)),
    ],
)
def test_the_medium(volumes: Sequence[DiscoveredVolumeSpec], partition: str, found: Medium) -> None:
    assert find_medium(volumes, partition) == found


@pytest.mark.parametrize(
    ("partition", "where"), [(PARTITION, f"install: partition {PARTITION}: "), ("", "install: ")]
)
def test_a_medium_that_was_taken_out(partition: str, where: str) -> None:
    with pytest.raises(UserError, match=f"^{where}the medium that this system was started from is not there"):
        find_medium([SYSTEM], partition)


class Media(MemoryMounts):
    """An ISO has one file."""

    @override
    def mount(self, point: MountPoint) -> None:
        super().mount(point)
        if point.type == "iso9660" and point.source == "/dev/sr0":
            path = Path(point.target, "boot/efi.img")
            path.parent.mkdir()
            path.write_bytes(b"vfat")

    @override
    def unmount(self, target: str, *, lazy: bool = False) -> None:
        super().unmount(target, lazy=lazy)
        shutil.rmtree(Path(target, "boot"), ignore_errors=True)


@dataclass(slots=True)
class Loop:
    """A loop device."""

    file: Path
    read_only: bool
    path: Path = Path("/dev/loop7")

    def __post_init__(self) -> None:
        assert self.read_only
        assert self.file.read_bytes() == b"vfat"

    def close(self) -> None:
        pass


def test_files_of_a_partition_and_of_an_iso(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LoopDevice", Loop)
    mounts, folder = Media(), tmp_path / "installer"
    for medium, expected in (
        (Medium(device="/dev/sdb1"), [("/dev/sdb1", "vfat")]),
        (Medium(device="/dev/sr0", is_iso=True), [("/dev/sr0", "iso9660"), ("/dev/loop7", "vfat")]),
    ):
        with open_medium(mounts, medium, folder) as root:
            found = mounts.list()
            assert root == folder / "medium"
            assert [(mount.source, mount.type) for mount in found] == expected
            assert all("ro" in mount.options for mount in found)
        assert not mounts.list()
        assert not list(folder.iterdir())


def test_another_iso_of_the_name(tmp_path: Path) -> None:
    mounts = Media()
    with (
        pytest.raises(UserError, match=r"/dev/sr1: has no boot/efi\.img"),
        open_medium(mounts, Medium(device="/dev/sr1", is_iso=True), tmp_path),
    ):
        pass
    assert not mounts.list()
