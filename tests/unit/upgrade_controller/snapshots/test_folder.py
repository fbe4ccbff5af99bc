"""Folders: a file has its name when it is whole, and nothing is left of one that never was."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.upgrade_controller.snapshots.destination import make_name, remove_old
from talos.upgrade_controller.snapshots.folder import Folder

NAMES = [make_name(datetime(2026, 11, day, tzinfo=UTC)) for day in range(1, 4)]


def test_a_file_gets_its_name_at_the_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path, where="folder")
    upload = folder.begin(NAMES[0])
    upload.write(b"ab")
    upload.write(b"c")
    assert list(folder.find_names()) == [f".{NAMES[0]}.part"]
    upload.commit()
    assert (tmp_path / NAMES[0]).read_bytes() == b"abc"
    assert (tmp_path / NAMES[0]).stat().st_mode & 0o777 == 0o600
    upload = folder.begin(NAMES[1])
    upload.write(b"x")
    upload.abort()
    assert list(folder.find_names()) == [NAMES[0]]


def test_what_was_interrupted_is_removed(tmp_path: Path) -> None:
    (tmp_path / f".{NAMES[0]}.part").touch()
    (tmp_path / ".notes.part").touch()
    Folder(tmp_path, where="folder").begin(NAMES[1]).commit()
    assert {entry.name for entry in tmp_path.iterdir()} == {NAMES[1], ".notes.part"}


def test_the_newest_stay(tmp_path: Path) -> None:
    for name in (*NAMES, "notes", f"{NAMES[0]}.bak"):
        (tmp_path / name).touch()
    remove_old(Folder(tmp_path, where="folder"), 1)
    assert {entry.name for entry in tmp_path.iterdir()} == {NAMES[-1], "notes", f"{NAMES[0]}.bak"}


def test_a_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="folder: No such file or directory"):
        Folder(tmp_path / "not mounted", where="folder").begin(NAMES[0])
