"""What is written before a fork, so that no process writes it after."""

import ctypes
import os
import subprocess
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, module_from_spec
from types import ModuleType
from typing import override

import pytest

from talos.system.memory import number_versions

# <cpython/object.h>, <internal/pycore_dict.h> of CPython 3.13 on machines of 64 bits.
TP_VERSION_TAG = 384
MA_KEYS, DK_VERSION = 32, 12


def read_type_version(found: type) -> int:
    return ctypes.c_uint32.from_address(id(found) + TP_VERSION_TAG).value


def read_globals_version(module: ModuleType) -> int:
    keys = ctypes.c_uint64.from_address(id(vars(module)) + MA_KEYS).value
    return ctypes.c_uint32.from_address(keys + DK_VERSION).value


def test_types_and_modules_have_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meta(type): ...

    class Fresh(metaclass=Meta): ...

    module = ModuleType("fresh")
    monkeypatch.setitem(sys.modules, "fresh", module)
    assert (read_type_version(Fresh), read_globals_version(module)) == (0, 0)
    number_versions()
    assert read_type_version(Fresh)
    assert read_globals_version(module)


def test_a_delayed_module_stays_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    class Recorder(Loader):
        @override
        def exec_module(self, module: ModuleType) -> None:
            loaded.append(module.__name__)

    spec = ModuleSpec("delayed", LazyLoader(Recorder()))
    module = module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "delayed", module)
    number_versions()
    assert loaded == []


FORKED = """
import os, resource
from talos.system.memory import keep_objects

kept = [float(number) for number in range(100_000)]  # on 600 pages
keep_objects()
for shared in (False, True):
    if os.fork() == 0:
        new = kept.copy()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        keep_objects(shared=shared)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, flush=True)
        os._exit(0)
    os.wait()
"""


def test_what_is_kept_and_shared_is_not_copied() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    copied, shared = map(int, ended.stdout.split())
    assert copied - shared > 400
