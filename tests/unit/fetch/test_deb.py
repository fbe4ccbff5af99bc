"""Debian packages are read without dpkg."""

from pathlib import Path

import pytest
from deb import read_file, read_source
from report import FetchError
from tests.unit.fetch.debs import make_deb


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("", ("", "")),
        ("Source: glibc\n", ("glibc", "")),
        ("Source: lvm2 (2.03.31-2)\n", ("lvm2", "2.03.31-2")),
    ],
)
def test_source_of_a_package(tmp_path: Path, line: str, source: tuple[str, str]) -> None:
    path = tmp_path / "x.deb"
    path.write_bytes(make_deb(f"Package: x\n{line}Version: 1\n", {"usr/bin/x": b"x"}))
    assert read_source(path) == source
    assert read_file(path, "usr/bin/x") == b"x"


def test_what_is_no_package(tmp_path: Path) -> None:
    path = tmp_path / "x.deb"
    path.write_bytes(b"PK")
    with pytest.raises(FetchError, match=r"^x\.deb is no Debian package$"):
        read_source(path)
