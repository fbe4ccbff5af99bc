"""Writing files so that a power cut leaves them whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.system.files import read_file, replace_durably


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    replace_durably(path, [b"one", b" two"], mode=0o600)
    assert path.read_bytes() == b"one two"
    assert path.stat().st_mode & 0o777 == 0o600
    replace_durably(path, [b"three"])
    assert path.read_bytes() == b"three"
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    replace_durably(path, [b"old"])

    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        replace_durably(path, pieces())
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_durably(tmp_path / "missing" / "file", [b"x"])
    assert not list(tmp_path.iterdir())


def test_what_a_power_cut_left_is_removed(tmp_path: Path) -> None:
    """And nothing else: neither files of other names, nor one that is being written."""
    path = tmp_path / "grub.cfg"
    left, others = tmp_path / ".grub.cfg.0123abcd", [".grub.cfg.0123abc", ".grub.cfg.bak", ".other.0123abcd"]
    for name in (left.name, *others):
        (tmp_path / name).write_text("half", encoding="ascii")

    def pieces() -> Iterator[bytes]:
        yield b"outer"
        replace_durably(path, [b"inner"])
        yield b" end"

    replace_durably(path, pieces())
    assert path.read_bytes() == b"outer end"
    assert not left.exists()
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([path.name, *others])


def test_a_file_that_a_person_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_file(tmp_path / "file") == read_file(f"{tmp_path}/file") == b"content"
    with pytest.raises(UserError, match=r"nowhere: can't be read: No such file or directory"):
        read_file(tmp_path / "nowhere")
