"""What is written before a fork, so that no process writes it after."""

import ctypes
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
