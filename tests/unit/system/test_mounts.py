"""Mount points of volumes, where pods may have left something."""

from contextlib import suppress
from pathlib import Path

import pytest

from talos.system import kernel
from talos.system.mounts import KernelMounts, MountPoint


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the kernel would mount."""
    found: list[str] = []

    def mount(_source: str, target: str, *_rest: object) -> None:
        found.append(str(Path(target).resolve()))

    monkeypatch.setattr(kernel, "mount", mount)
    return found


def test_a_volume_is_not_mounted_where_a_link_leads(tmp_path: Path, mounted: list[str]) -> None:
    system = tmp_path / "system"
    system.mkdir()
    target = tmp_path / "mnt" / "data"
    target.parent.mkdir()
    target.symlink_to(system)
    KernelMounts().mount(MountPoint(source="/dev/x", target=str(target), type="xfs", guarded=True))
    try:
        assert mounted == [str(target)]
        assert not target.is_symlink()
    finally:
        with suppress(OSError):
            kernel.set_immutable(str(target), immutable=False)


def test_a_mount_points_folder_is_made(tmp_path: Path, mounted: list[str]) -> None:
    target = tmp_path / "a" / "b"
    KernelMounts().mount(MountPoint(source="x", target=str(target), type="tmpfs", mode=0o711))
    assert mounted == [str(target)]
    assert target.stat().st_mode & 0o777 == 0o711
