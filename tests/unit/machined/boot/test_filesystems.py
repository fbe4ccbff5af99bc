"""Mount options of a hardened machine."""

from talos.machined.boot.filesystems import check_hardening
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


def test_hardening_is_checked() -> None:
    mounts = MemoryMounts()
    mounts.mount(MountPoint(source="tmpfs", target="/run", type="tmpfs", options=("rw", "nosuid")))
    mounts.mount(MountPoint(source="x", target="/", type="squashfs", options=("ro",)))
    mounts.mount(MountPoint(source="/dev/sda6", target="/var", type="xfs", options=("rw", "nosuid", "nodev")))
    assert check_hardening(mounts) == ["/run lacks nodev, noexec"]
