"""Named pipes of containers."""

import os
from pathlib import Path

from talos.machined.containerd.pipes import open_named_pipe


def test_another_process_writes_by_the_name_and_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "pipes"
    with open_named_pipe("a", folder) as pipe:
        assert folder.stat().st_mode & 0o777 == 0o700
        other = os.open(pipe.path, os.O_WRONLY)
        pipe.writing.close()
        os.write(other, b"text")
        assert os.read(pipe.reading.fileno(), 10) == b"text"
        os.close(other)
        assert os.read(pipe.reading.fileno(), 10) == b""
    assert list(folder.iterdir()) == []
    assert pipe.reading.closed


def test_what_an_earlier_run_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("left behind")
    with open_named_pipe("a", tmp_path) as pipe:
        assert Path(pipe.path).is_fifo()
