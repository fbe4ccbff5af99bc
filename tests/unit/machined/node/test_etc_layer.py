"""The layer above /etc, made of real mounts in a view of its own."""

from pathlib import Path

import pytest
from tests.harness.forked import run_forked
from tests.harness.limits import REAL_TIMEOUT

from talos.machined.boot import filesystems
from talos.machined.node.etc_layer import EtcLayer
from talos.system import kernel
from talos.system.mounts import KernelMounts

ROOTS = "ssl/certs/ca-certificates.crt"


def exercise(etc: Path, layer: EtcLayer) -> None:
    """What PID 1 does, and what others see of it."""
    mounts = KernelMounts()
    filesystems.mount_etc(mounts)
    filesystems.mount_etc(mounts)
    assert [mount.target for mount in mounts.list()].count(str(etc)) == 1
    assert not [one for one in filesystems.check_hardening(mounts) if str(etc.parent) in one]
    layer.write("multipath/a.conf", b"hello", 0o600)
    layer.write(ROOTS, b"new", 0o644)
    assert (etc / "multipath/a.conf").read_bytes() == b"hello"
    assert (etc / ROOTS).read_bytes() == b"new"
    assert layer.read_image(ROOTS) == b"old"
    with pytest.raises(OSError, match="Read-only file system"):
        (etc / "x").write_bytes(b"x")
    layer.remove(ROOTS)
    layer.remove("multipath/a.conf")
    assert (etc / ROOTS).read_bytes() == b"old"
    assert not (etc / "multipath/a.conf").exists()


@pytest.mark.root
@pytest.mark.parametrize("propagation", [kernel.MS_PRIVATE, kernel.MS_SHARED], ids=["private", "shared"])
def test_files_appear_in_a_folder_that_stays_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, propagation: int
) -> None:
    etc, layer = tmp_path / "etc", EtcLayer(folder=tmp_path / "layer")
    (etc / ROOTS).parent.mkdir(parents=True)
    (etc / ROOTS).write_bytes(b"old")
    monkeypatch.setattr(filesystems, "ETC", str(etc))
    monkeypatch.setattr(filesystems, "ETC_LAYER", layer)

    def exercise_apart() -> None:
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("none", "/", flags=kernel.MS_REC | propagation)
        exercise(etc, layer)

    run_forked(exercise_apart, timeout=REAL_TIMEOUT)
