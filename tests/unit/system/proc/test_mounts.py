"""Mounts with names that pods may give them."""

import pytest

from talos.system.proc.mounts import parse_mounts

FORGED = "/dev/sda6 /var/lib/etcd ext4 rw 0 0"


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_name_with_an_end_of_a_line_hides_no_mount(end: str) -> None:
    name = f"/var/mnt/x{end}{FORGED.replace(' ', '\\040')}"
    mounts = parse_mounts(f"/dev/sda5 /var xfs rw 0 0\ntmpfs {name} tmpfs ro 0 0\n")
    assert [(mount.source, mount.type) for mount in mounts] == [("/dev/sda5", "xfs"), ("tmpfs", "tmpfs")]
    assert mounts[1].target == f"/var/mnt/x{end}{FORGED}"
