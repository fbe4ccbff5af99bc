"""Disks' health from sysfs."""

from talos.system.block.health import DiskHealth, read_health
from talos.testing.files import MemoryFiles


def test_disks_with_a_state_or_a_count_of_errors() -> None:
    files = MemoryFiles(
        {
            "/sys/block/sda/device/state": "running\n",
            "/sys/block/sda/device/ioerr_cnt": "0x1f\n",
            "/sys/block/nvme0n1/device/state": "live\n",
            "/sys/block/vda/size": "8\n",
            "/sys/block/sdb/device/ioerr_cnt": "odd\n",
        }
    )
    assert list(read_health(files)) == [
        DiskHealth(name="nvme0n1", state="live", errors=None),
        DiskHealth(name="sda", state="running", errors=31),
    ]


def test_without_sysfs() -> None:
    assert list(read_health(MemoryFiles({}))) == []
