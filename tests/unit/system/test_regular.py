"""Parts of files that others replace."""

import os
from pathlib import Path

from talos.system.regular import read_regular


def test_a_part_of_the_file_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    inode = path.stat().st_ino
    assert read_regular(path, 4, 100) == b"two\n"
    assert read_regular(path, 0, 3, inode=inode) == b"one"
    assert read_regular(path, 100, 3) == b""
    assert read_regular(path, 0, 3, inode=inode + 1) is None


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log")
    (tmp_path / "log").write_bytes(b"one\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing", "."):
        assert read_regular(tmp_path / name, 0, 3) is None
