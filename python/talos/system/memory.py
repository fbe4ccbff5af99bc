"""Memory that processes share after a fork: what is written to becomes private, a page at a time."""

import ctypes
import gc
from types import CodeType, FunctionType

_IMMORTAL = 0xFFFFFFFF
"""The reference count of objects that live for ever (PEP 683): CPython 3.13 doesn't count those."""
_SLICE = 5000
_ADDRESSES = 1 << 47  # of a process on x86-64


def keep_objects() -> None:
    """Keep every object that exists for good, so that neither counting nor collecting writes to it.

    Objects that were kept before are not looked at again. It takes half as long as importing what the
    objects belong to: most of them are met several times, but remembering them would take longer.
    """
    objects = gc.get_objects()
    counts = memoryview((ctypes.c_uint8 * _ADDRESSES).from_address(0)).cast("B").cast("I")
    for found in objects:
        counts[id(found) >> 2] = _IMMORTAL
    for start in range(0, len(objects), _SLICE):
        for found in gc.get_referents(*objects[start : start + _SLICE]):
            counts[id(found) >> 2] = _IMMORTAL
    # The collector doesn't know what code consists of. Names are immortal anyway, tables are not counted.
    codes = [found.__code__ for found in objects if type(found) is FunctionType]
    for code in codes:
        constants = code.co_consts
        counts[id(constants) >> 2] = _IMMORTAL
        for found in constants:
            counts[id(found) >> 2] = _IMMORTAL
            if type(found) is CodeType:
                codes.append(found)
    gc.freeze()
