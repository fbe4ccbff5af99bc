"""A medium's cache of images: found by its label, mounted if it has one, copied file by file."""

from pathlib import Path

import pytest

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.disks import image_cache
from talos.disks.image_cache import CacheDisks, StoppedError, find_media, list_files
from talos.system.errors import UserError
from talos.testing.mounts import MemoryMounts


@pytest.mark.parametrize(
    ("name", "label", "found"),
    [
        ("iso9660", "TALOS", ["/dev/sr0"]),
        ("iso9660", "TALOS_V1_15_0", ["/dev/sr0"]),
        ("iso9660", "TALOSIX", []),
        ("ext4", "TALOS", []),
        ("iso9660", "debian", []),
    ],
)
def test_a_medium_is_found_by_its_label(name: str, label: str, found: list[str]) -> None:
    other = DiscoveredVolumeSpec(name="xfs", label="STATE", dev_path="/dev/vda5")
    volume = DiscoveredVolumeSpec(name=name, label=label, dev_path="/dev/sr0")
    assert find_media([other, volume]) == found


def test_a_medium_without_a_cache_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = MemoryMounts()
    monkeypatch.setattr(image_cache, "ISO_CACHE", tmp_path / "cache")
    CacheDisks(mounts).mount_medium("/dev/sr0")
    assert mounts.list() == []
    (tmp_path / "cache").mkdir()
    disks = CacheDisks(mounts)
    for _ in range(2):
        disks.mount_medium("/dev/sr0")
    (mount,) = mounts.list()
    assert (mount.source, mount.target, mount.type) == ("/dev/sr0", "/system/imagecache/iso", "iso9660")
    assert set(mount.options) == {"ro", "nosuid", "nodev", "noexec"}


def test_files_are_copied_once(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("manifests/r/a/reference/1", "manifests/r/a/digest/sha256-1", "blob/sha256-2"):
        path = source / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    (source / "blob/link").symlink_to("/etc/passwd")
    names = [str(path.relative_to(source)) for path in list_files(source)]
    assert names == ["blob/sha256-2", "manifests/r/a/digest/sha256-1", "manifests/r/a/reference/1"]
    disks = CacheDisks(MemoryMounts())
    target.mkdir()
    assert [disks.copy(source, target, never) for _ in range(2)] == [3, 0]
    (target / "blob/sha256-2").write_text("half")
    assert disks.copy(source, target, never) == 1
    assert {path.read_text() for path in list_files(target)} == set(names)
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*")} == {0o644, 0o755}


def test_a_volume_that_is_too_small_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "RESERVE", 1 << 60)
    make_blob(tmp_path / "source")
    (tmp_path / "target").mkdir()
    with pytest.raises(UserError, match=r"IMAGECACHE: the images need .* are free .*maxSize"):
        CacheDisks(MemoryMounts()).copy(tmp_path / "source", tmp_path / "target", never)
    assert not any((tmp_path / "target").iterdir())


def test_a_copy_that_is_stopped_leaves_no_half_file(tmp_path: Path) -> None:
    make_blob(tmp_path / "source")
    (tmp_path / "target").mkdir()
    with pytest.raises(StoppedError):
        CacheDisks(MemoryMounts()).copy(tmp_path / "source", tmp_path / "target", lambda: True)
    assert not any((tmp_path / "target").iterdir())


def make_blob(folder: Path) -> None:
    folder.mkdir()
    (folder / "blob").write_bytes(b"1")


def never() -> bool:
    return False
