"""Log files and their rotation."""

import os
from pathlib import Path

from talos.machined.logs.file import LogFile


def test_rotation(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log", rotate_at=100)
    for n in range(30):
        file.write(b"line %04d\n" % n)
    assert (tmp_path / "a.log.1").read_bytes() == b"".join(b"line %04d\n" % n for n in range(10, 20))
    assert (tmp_path / "a.log").read_bytes() == b"".join(b"line %04d\n" % n for n in range(20, 30))


def test_a_file_that_is_not_open_is_flushed_without_an_error(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "apid.log")
    file.flush()
    file.write(b"line\n")
    file.flush()
    file.close()
    file.flush()
    assert file.error == ""


def test_a_pipe_in_its_place_holds_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "apid.log"
    os.mkfifo(path)
    file = LogFile(path)
    file.write(b"line\n")
    assert file.error == f"{path}: No such device or address"
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file.write(b"line\n")
    os.close(reader)
    assert file.error == f"{path}: it is no file"
    path.unlink()
    file.write(b"line\n")
    assert (file.error, path.read_bytes()) == ("", b"line\n")
    file.close()
