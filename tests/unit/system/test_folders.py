"""Folders where others may have left links."""

from pathlib import Path

import pytest

from talos.system.folders import make_folder


def test_a_folder_is_made_or_set(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    make_folder(path, 0o711)
    assert path.stat().st_mode & 0o7777 == 0o711
    (path / "kept").touch()
    make_folder(path, 0o700)
    assert path.stat().st_mode & 0o7777 == 0o700
    assert (path / "kept").exists()


@pytest.mark.parametrize("name", ["a", "a/b"])
def test_a_link_gives_place_to_a_folder(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True, mode=0o755)
    link = tmp_path / "top" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(other)
    make_folder(tmp_path / "top/a/b", 0o700)
    assert not link.is_symlink()
    assert (tmp_path / "top/a/b").is_dir()
    assert {path.stat().st_mode & 0o777 for path in (other, other / "b")} == {0o755}


def test_a_file_in_the_way_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b", 0o700)
    assert (tmp_path / "a").is_file()
