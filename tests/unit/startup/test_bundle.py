"""Modules from one file."""

import importlib
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from talos.startup.bundle import HEAD, install

SOURCES = {
    "bundled": ("import bundled.inner\nWHERE = __file__", True),
    "bundled.inner": ("NAME = __name__", False),
    "spaced.deep": ("from bundled.inner import NAME", False),
}


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Path]:
    index, codes = {"spaced": (0, 0, "/image/spaced", True)}, b""
    for name, (source, is_package) in SOURCES.items():
        where = f"/image/{name.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        code = marshal.dumps(compile(source, where, "exec"))
        index[name] = (len(codes), len(code), where, is_package)
        codes += code
    head = marshal.dumps(index)
    file = tmp_path / "start.bundle"
    file.write_bytes(len(head).to_bytes(HEAD, "little") + head + codes)
    before = [*sys.meta_path]
    yield file
    sys.meta_path[:] = before
    for name in (*SOURCES, "spaced"):
        sys.modules.pop(name, None)


def test_modules_come_from_the_bundle(bundle: Path) -> None:
    install([str(bundle.with_name("missing")), str(bundle)])
    package, deep = importlib.import_module("bundled"), importlib.import_module("spaced.deep")
    assert package.WHERE == "/image/bundled/__init__.py"
    assert list(package.__path__) == ["/image/bundled"]
    assert package.inner.NAME == deep.NAME == "bundled.inner"
    with pytest.raises(ModuleNotFoundError, match=r"bundled\.missing"):
        importlib.import_module("bundled.missing")
