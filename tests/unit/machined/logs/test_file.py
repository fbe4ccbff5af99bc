"""Log files and their rotation."""

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
