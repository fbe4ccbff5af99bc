"""The twin of the kernel's mounts."""

import pytest

from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


def test_memory_mounts() -> None:
    mounts = MemoryMounts(busy={"/var"})
    mounts.mount(MountPoint(source="tmpfs", target="/run", type="tmpfs"))
    mounts.mount(MountPoint(source="/dev/sda6", target="/var", type="xfs"))
    assert mounts.list()[0].options == ("nosuid", "nodev", "noexec")
    with pytest.raises(OSError, match="busy"):
        mounts.unmount("/var")
    mounts.unmount("/var", lazy=True)
    assert [mount.target for mount in mounts.list()] == ["/run"]
