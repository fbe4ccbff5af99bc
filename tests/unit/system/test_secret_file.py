"""Content for libraries that read paths only."""

import os
from pathlib import Path

import pytest

from talos.system.secret_file import open_secret_file


def test_the_path_has_the_content_and_is_on_no_disk() -> None:
    with open_secret_file(b"key") as path:
        assert path.startswith("/proc/self/fd/")
        assert Path(path).read_bytes() == b"key"


def test_without_files_in_memory_it_is_the_users_own_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with open_secret_file(b"key") as path:
        file = Path(path)
        assert file.read_bytes() == b"key"
        assert file.stat().st_mode & 0o777 == 0o600
    assert not file.exists()
