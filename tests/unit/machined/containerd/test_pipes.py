"""Named pipes of containers."""

import os
from pathlib import Path

import pytest

from talos.machined.containerd import pipes
from talos.machined.containerd.pipes import open_named_pipe


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipes"
    monkeypatch.setattr(pipes, "FOLDER", folder)
    return folder


def test_another_process_writes_by_the_name_and_nothing_is_left(folder: Path) -> None:
    with open_named_pipe("a") as pipe:
        assert folder.stat().st_mode & 0o777 == 0o700
        other = os.open(pipe.path, os.O_WRONLY)
        pipe.writing.close()
        os.write(other, b"text")
        assert os.read(pipe.reading.fileno(), 10) == b"text"
        os.close(other)
        assert os.read(pipe.reading.fileno(), 10) == b""
    assert list(folder.iterdir()) == []
    assert pipe.reading.closed


def test_what_an_earlier_run_left_is_replaced(folder: Path) -> None:
    folder.mkdir()
    (folder / "a").write_text("left behind")
    with open_named_pipe("a") as pipe:
        assert Path(pipe.path).is_fifo()
