"""Mount options of a hardened machine."""

from pathlib import Path

import pytest

from talos.machined.boot import filesystems
from talos.machined.boot.filesystems import check_hardening
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


def test_hardening_is_checked() -> None:
    mounts = MemoryMounts()
    mounts.mount(MountPoint(source="tmpfs", target="/run", type="tmpfs", options=("rw", "nosuid")))
    mounts.mount(MountPoint(source="x", target="/", type="squashfs", options=("ro",)))
    mounts.mount(MountPoint(source="/dev/sda6", target="/var", type="xfs", options=("rw", "nosuid", "nodev")))
    assert check_hardening(mounts) == ["/run lacks nodev, noexec"]


def test_var_run_becomes_a_link_into_memory(tmp_path: Path) -> None:
    link, target = tmp_path / "var-run", tmp_path / "run"
    target.mkdir()
    (link / "netns").mkdir(parents=True)
    (link / "netns/cni-1").touch()
    for _ in range(2):
        filesystems.link_run(link, str(target))
        assert link.readlink() == target
    (link / "kept").touch()
    filesystems.link_run(link, str(target))
    assert (target / "kept").exists()


def test_opt_is_an_overlay_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "system" / "overlays"
    monkeypatch.setattr(filesystems, "OVERLAYS", folder)
    mounts = MemoryMounts()
    filesystems.mount_opt(mounts)
    filesystems.mount_opt(mounts)
    (mount,) = mounts.list()
    assert (mount.target, mount.type, mount.options) == ("/opt", "overlay", ("nosuid", "nodev"))
    assert check_hardening(mounts) == []
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder.parent, *folder.iterdir())}
    assert modes == {"system": 0o700, "opt-diff": 0o755, "opt-workdir": 0o700}


def test_a_folder_is_used_when_something_is_in_it(tmp_path: Path) -> None:
    folders = filesystems.VarFolders()
    assert not folders.is_used(str(tmp_path / "etcd"))
    assert not folders.is_used(str(tmp_path))
    (tmp_path / "etcd").mkdir()
    assert folders.is_used(str(tmp_path))


def test_the_volumes_that_run_programs_may(tmp_path: Path) -> None:
    mounts = MemoryMounts()
    for target in ("/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd"):
        options = ("rw", "nosuid", "nodev")
        mounts.mount(MountPoint(source=f"{tmp_path}/disk", target=target, type="xfs", options=options))
    assert check_hardening(mounts) == ["/var/lib/etcd lacks noexec"]
