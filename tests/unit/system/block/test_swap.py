"""The header of swap as libblkid reads it, and what the kernel shows of its use."""

import os
from pathlib import Path

import pytest

from talos.system.block.blkid import probe
from talos.system.block.swap import Swap, make_swap, parse_swaps
from talos.system.errors import UserError

SWAPS = """\
Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/vda7                               partition\t307196\t\t1024\t\t-2
/var/a\\040b.swap extra words            file\t\t4\t0\t-3
"""


def test_a_header_is_swap_to_libblkid(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * (1 << 20))
    make_swap(str(disk))
    content = probe(disk)
    assert (content.name, content.label) == ("swap", "")
    assert content.uuid
    assert disk.stat().st_size == 1 << 20
    assert disk.read_bytes().endswith(b"x"), "more than the first page was written"


def test_too_small_a_device_is_refused_and_not_written_to(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(9 * os.sysconf("SC_PAGESIZE")))
    with pytest.raises(UserError, match="too small for swap"):
        make_swap(str(disk))
    assert not any(disk.read_bytes())


def test_what_is_swapped_to() -> None:
    assert list(parse_swaps(SWAPS)) == [
        Swap(device="/dev/vda7", type="partition", size=307196 << 10, used=1 << 20, priority=-2)
    ]
    assert list(parse_swaps("")) == []
