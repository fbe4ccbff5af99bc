"""The audit log of the API server: in order across its files, which are renamed and removed as it writes."""

import os
from pathlib import Path

import pytest

from talos.kubed.pods import AUDIT_LOGS
from talos.machined.logs import kubernetes_audit
from talos.machined.logs.kubernetes_audit import CURRENT, FOLDER, MAX_CHUNK, Chunk, ReadPosition, read_chunk


def read_all(
    folder: Path, after: ReadPosition | None = None
) -> tuple[list[bytes], ReadPosition | None, bool]:
    """The lines until there is none left, the position behind them, whether some are missing."""
    lines, has_gap = list[bytes](), False
    while (chunk := read_chunk(folder, after)) is not None:
        lines += chunk.lines.splitlines()
        after, has_gap = chunk.position, has_gap or chunk.has_gap
    return lines, after, has_gap


def rotate(folder: Path, moment: str) -> None:
    (folder / CURRENT).rename(folder / f"kube-apiserver-{moment}.log")
    (folder / CURRENT).touch()


def write(folder: Path, text: str) -> None:
    with (folder / CURRENT).open("a") as file:
        file.write(text)


def test_it_is_where_the_api_server_has_it() -> None:
    assert str(FOLDER) == AUDIT_LOGS


def test_lines_come_once_and_in_order_whatever_the_files_are_called(tmp_path: Path) -> None:
    assert read_chunk(tmp_path / "none", None) is None
    write(tmp_path, "a\nb\nhal")
    (tmp_path / "other.log").write_text("other\n")
    os.mkfifo(tmp_path / "kube-apiserver-0.log")
    (tmp_path / "kube-apiserver-1.log").symlink_to("/etc/passwd")
    lines, position, _ = read_all(tmp_path)
    assert lines == [b"a", b"b"]
    write(tmp_path, "f\nc\n")
    rotate(tmp_path, "2026-01-02T03-04-05.678")
    write(tmp_path, "d\n")
    rotate(tmp_path, "2026-01-02T03-04-05.679")
    write(tmp_path, "e\n")
    lines, position, has_gap = read_all(tmp_path, position)
    assert (lines, has_gap) == ([b"half", b"c", b"d", b"e"], False)
    assert read_all(tmp_path, position) == ([], position, False)


def test_a_file_that_is_gone_leaves_a_gap(tmp_path: Path) -> None:
    write(tmp_path, "a\n")
    _, position, _ = read_all(tmp_path)
    for index in range(3):
        write(tmp_path, f"{index}\n")
        rotate(tmp_path, f"2026-01-02T03-04-05.67{index}")
    (tmp_path / "kube-apiserver-2026-01-02T03-04-05.670.log").unlink()
    assert read_chunk(tmp_path, position) is not None
    lines, _, has_gap = read_all(tmp_path, position)
    assert (lines, has_gap) == ([b"1", b"2"], True)


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    write(tmp_path, "a\nb\n")
    _, position, _ = read_all(tmp_path)
    (tmp_path / CURRENT).write_text("c\n")
    assert read_all(tmp_path, position)[0] == [b"c"]


def test_a_stream_begins_with_the_newest_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_audit, "BACKLOG", 10)
    write(tmp_path, "first\nsecond\nthird\n")
    assert read_all(tmp_path)[0] == [b"third"]


def test_a_very_long_line_is_cut(tmp_path: Path) -> None:
    write(tmp_path, "x" * (MAX_CHUNK + 5) + "\nlast\n")
    first = (tmp_path / CURRENT).stat()
    chunk = read_chunk(tmp_path, ReadPosition(inode=first.st_ino, offset=0))
    assert chunk == Chunk(
        lines=b"x" * MAX_CHUNK + b"\n", position=ReadPosition(inode=first.st_ino, offset=MAX_CHUNK)
    )
    assert chunk is not None
    assert read_all(tmp_path, chunk.position)[0] == [b"xxxxx", b"last"]
