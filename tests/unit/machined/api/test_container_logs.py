"""Log files of containers: their last lines, and the file that takes the place of one that is read."""

import io
from pathlib import Path

import pytest

from talos.machined.api import container_logs
from talos.machined.api.container_logs import LogReader, find_tail


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"a\nbb\nccc\n", 1, b"ccc\n"),
        (b"a\nbb\nccc\n", 2, b"bb\nccc\n"),
        (b"a\nbb\nccc\n", 3, b"a\nbb\nccc\n"),
        (b"a\nbb\nccc\n", 9, b"a\nbb\nccc\n"),
        (b"a\nbb\nccc", 1, b"ccc"),
        (b"a\nbb\nccc", 2, b"bb\nccc"),
        (b"\n\n", 1, b"\n"),
        (b"a\n", 0, b""),
        (b"a", 0, b""),
        (b"", 5, b""),
    ],
)
def test_the_last_lines(
    monkeypatch: pytest.MonkeyPatch, chunk: int, text: bytes, lines: int, expected: bytes
) -> None:
    monkeypatch.setattr(container_logs, "CHUNK", chunk)
    assert text[find_tail(io.BytesIO(text), lines) :] == expected


def test_a_replaced_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"one\ntwo\n")
    reader = LogReader(str(path), str(tmp_path))
    reader.open(1)
    assert (reader.read(), reader.read()) == (b"two\n", b"")
    assert not reader.open_next()
    path.rename(tmp_path / "0.log.old")
    assert not reader.open_next()
    path.write_bytes(b"three\n")
    assert reader.open_next()
    assert reader.read() == b"three\n"
    reader.close()


@pytest.mark.parametrize("link", ["pod", "pod/container", "pod/container/0.log"])
def test_no_link_is_followed(tmp_path: Path, link: str) -> None:
    """Who may write among the logs would have PID 1 read what it likes, for those who may read logs."""
    logs, secrets = tmp_path / "logs", tmp_path / "secrets"
    for folder in (logs, secrets):
        path = folder / "pod/container/0.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"text")
    path = logs / "pod/container/0.log"
    reader = LogReader(str(path), str(logs))
    reader.open(-1)
    assert reader.read() == b"text"
    (logs / link).rename(tmp_path / "before")
    (logs / link).symlink_to(secrets / link)
    assert path.read_bytes() == b"text"
    for open_file in (lambda: LogReader(str(path), str(logs)).open(-1), reader.open_next):
        with pytest.raises(OSError, match=r"symbolic|Not a directory"):
            open_file()
    reader.close()
