"""Memory that processes share after a fork: what is written to becomes private, a page at a time."""

import ctypes
import gc
import sys
from types import CodeType, FunctionType, ModuleType

_IMMORTAL = 0xFFFFFFFF
"""The reference count of objects that live for ever (PEP 683): CPython 3.13 doesn't count those."""
_SLICE = 5000
_SPECIALIZED = 3
"""Runs after which CPython 3.13 has specialized what it runs."""
_ADDRESSES = 1 << 47  # of a process on x86-64


def keep_objects(*, shared: bool = False) -> None:
    """Keep every object that exists for good, so that neither counting nor collecting writes to it.

    Objects that were kept before are not looked at again. It takes half as long as importing what the
    objects belong to: most of them are met several times, but remembering them would take longer.
    What another process shares, once this one has been forked, is not written to where it is kept already,
    which would copy its page.
    """
    objects = gc.get_objects()
    counts = memoryview((ctypes.c_uint8 * _ADDRESSES).from_address(0)).cast("B").cast("I")
    for found in objects:
        counts[id(found) >> 2] = _IMMORTAL
    for start in range(0, len(objects), _SLICE):
        referents = gc.get_referents(*objects[start : start + _SLICE])
        if shared:
            referents = [found for found in referents if counts[id(found) >> 2] != _IMMORTAL]
        for found in referents:
            counts[id(found) >> 2] = _IMMORTAL
    # The collector doesn't see what code consists of. Names are immortal anyway, tables are not counted.
    codes = [found.__code__ for found in objects if type(found) is FunctionType]
    for code in codes:
        constants = code.co_consts
        for found in (constants, *constants):
            if counts[id(found) >> 2] != _IMMORTAL:
                counts[id(found) >> 2] = _IMMORTAL
            if type(found) is CodeType:
                codes.append(found)
    gc.freeze()


def number_versions() -> None:
    """Give types and modules the numbers that the interpreter's caches go by.

    It writes them where it finds none, at the first look into a type or from a module's code at its globals,
    which would otherwise happen after the fork, in every process for itself.
    """
    types: set[type] = {object}
    remaining: list[type] = [object]
    while remaining:
        found = remaining.pop()
        _ = found.__hash__
        derived = set(type.__subclasses__(found)) - types
        types |= derived
        remaining.extend(derived)
    for module in tuple(sys.modules.values()):
        if type(module) is ModuleType:  # one that is not loaded yet has a type of its own
            read = FunctionType(_read_global.__code__.replace(), vars(module))
            for _ in range(_SPECIALIZED):
                read()


def _read_global() -> str:
    return __name__
