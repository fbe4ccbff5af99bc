"""A watch of a directory wakes at what is written or renamed into it."""

from pathlib import Path

import pytest
import trio

from talos.system.inotify import DirectoryWatch


async def test_it_wakes_at_each_kind_of_change(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    target = tmp_path / "link"
    target.symlink_to("somewhere")
    with DirectoryWatch(folder) as watch:
        (folder / "written").write_text("x", encoding="ascii")
        await watch.wait()
        target.rename(folder / "current")
        await watch.wait()
        with trio.move_on_after(0.05) as scope:
            await watch.wait()
        assert scope.cancelled_caught


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), DirectoryWatch(tmp_path / "nowhere"):
        pass
