"""Memory that processes share after a fork: what is written to becomes private, a page at a time."""

import ctypes
import gc
from types import CodeType

_IMMORTAL = 0xFFFFFFFF
"""The reference count of objects that live for ever (PEP 683): CPython 3.13 doesn't count those."""
_SLICE = 20_000
_ADDRESSES = 1 << 47  # of a process on x86-64


def keep_objects() -> None:
    """Keep every object that exists for good, so that neither counting nor collecting writes to it.

    Objects that were kept before are not looked at again.
    """
    objects = gc.get_objects()
    found = set(map(id, objects))
    codes: list[CodeType] = []
    for start in range(0, len(objects), _SLICE):
        referents = gc.get_referents(*objects[start : start + _SLICE])
        found.update(map(id, referents))
        codes += [code for code in referents if type(code) is CodeType]
    del objects
    _add_parts(codes, found)
    counts = memoryview((ctypes.c_uint8 * _ADDRESSES).from_address(0)).cast("B").cast("I")
    for address in found:
        counts[address >> 2] = _IMMORTAL
    gc.freeze()


def _add_parts(codes: list[CodeType], found: set[int]) -> None:
    """The collector doesn't know what code consists of."""
    seen: set[int] = set()
    while codes:
        code = codes.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        parts = (
            *code.co_consts,
            *code.co_names,
            code.co_consts,
            code.co_names,
            code.co_linetable,
            code.co_exceptiontable,
            code.co_filename,
            code.co_name,
            code.co_qualname,
        )
        found.update(map(id, parts))
        codes += [part for part in parts if type(part) is CodeType]
