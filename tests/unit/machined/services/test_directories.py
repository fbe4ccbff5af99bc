"""Directories of services, where pods may have left links."""

import os
from pathlib import Path

import pytest

from talos.machined.services.process_start import make_directory
from talos.machined.services.spec import Directory

pytestmark = pytest.mark.root


def test_a_link_in_the_place_of_a_directory_gives_no_other_to_the_service(tmp_path: Path) -> None:
    secrets, place = tmp_path / "secrets", tmp_path / "lib/etcd"
    secrets.mkdir(mode=0o755)
    place.parent.mkdir()
    place.symlink_to(secrets)
    for _ in range(2):
        make_directory(Directory(path=str(place), uid=60, gid=61, mode=0o2750))
        found = place.lstat()
        assert (found.st_uid, found.st_gid, found.st_mode) == (60, 61, 0o42750)
    assert (secrets.stat().st_uid, secrets.stat().st_mode) == (os.getuid(), 0o40755)
