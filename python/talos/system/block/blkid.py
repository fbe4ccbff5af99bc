"""What is on a disk, a partition or an image file, found by libblkid; META is recognised here.

Function names and flags are those of util-linux' ``libblkid/src/blkid.h``. Calls block: use a thread.
"""

import ctypes
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from talos.system.block.meta import is_meta

LIBRARY = "libblkid.so.1"
TALOS_META = "talosmeta"
"""The name of META's content."""
SECTOR = 512
"""Bytes of a sector in which libblkid counts, whatever the disk's own are."""

_SUBLKS_LABEL = 1 << 1
_SUBLKS_UUID = 1 << 3
_SUBLKS_TYPE = 1 << 5
_SUBLKS_USAGE = 1 << 7
_SUBLKS_FSINFO = 1 << 11
_PARTS_ENTRY_DETAILS = 1 << 2
_FOUND, _NOTHING, _AMBIVALENT = 0, 1, -2
_META_BYTES = 1 << 20
MAX_SIZE = (1 << 63) - 1
"""Bytes; a damaged or forged superblock may name more, which no field of a resource has room for."""

type Kind = Literal["", "filesystem", "partition-table", "raw", "other"]


class AmbiguousContentError(OSError):
    """There are signatures of more than one filesystem: which one is meant can't be guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A row of a partition table. In bytes; uuids in lower case; ``flags`` are GPT's 64 attribute bits."""

    number: int
    start: int
    size: int
    uuid: str = ""
    label: str = ""
    type_uuid: str = ""
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was found. ``name`` is ``xfs``, ``gpt``, ...; all texts are empty where there is nothing.

    In bytes: ``size`` is that of the device, ``block_size`` and ``filesystem_size`` (0: unknown) are the
    filesystem's. ``uuid`` is the filesystem's or the partition table's.
    """

    kind: Kind = ""
    name: str = ""
    uuid: str = ""
    label: str = ""
    size: int = 0
    block_size: int = 0
    filesystem_size: int = 0
    sector_size: int = 0
    partitions: tuple[Partition, ...] = ()


def probe(path: Path, *, sector_size: int = 0) -> Content:
    """Look at a device or file. ``sector_size`` is only needed for images of disks with other sectors.

    AmbiguousContentError: there is more than one answer.
    OSError: it can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with _open_probe(descriptor, path) as handle:
            return _read(handle, descriptor, path, sector_size)
    finally:
        os.close(descriptor)


def _read(handle: int, descriptor: int, path: Path, sector_size: int) -> Content:
    library = _load()
    if sector_size:
        library.blkid_probe_set_sectorsize(handle, sector_size)
    library.blkid_probe_enable_superblocks(handle, 1)
    flags = _SUBLKS_LABEL | _SUBLKS_UUID | _SUBLKS_TYPE | _SUBLKS_USAGE | _SUBLKS_FSINFO
    library.blkid_probe_set_superblocks_flags(handle, flags)
    library.blkid_probe_enable_partitions(handle, 1)
    library.blkid_probe_set_partitions_flags(handle, _PARTS_ENTRY_DETAILS)
    size = int(library.blkid_probe_get_size(handle))
    sectors = int(library.blkid_probe_get_sectorsize(handle))
    ctypes.set_errno(0)
    answer = library.blkid_do_safeprobe(handle)
    # Release 2.41 returns it as an error without a number.
    if answer == _AMBIVALENT or (answer < 0 and not ctypes.get_errno()):
        raise AmbiguousContentError(errno.EUCLEAN, "more than one filesystem's signature is on it", str(path))
    if answer not in (_FOUND, _NOTHING):
        raise _make_error(path)
    # Of a partition something is always found: its row in the table of its disk.
    values = _read_values(handle) if answer == _FOUND else {}
    table = values.get("PTTYPE", "")
    name = values.get("TYPE", "")
    if not table and not name:
        raw = is_meta(os.pread(descriptor, _META_BYTES, 0))
        return Content(
            kind="raw" if raw else "", name=TALOS_META if raw else "", size=size, sector_size=sectors
        )
    # A disk may carry both: old boot sectors look like tables with nothing in them.
    is_table = bool(table) and not name
    usage = values.get("USAGE", "")
    block_size = int(values.get("FSBLOCKSIZE", values.get("BLOCK_SIZE", "0")))
    return Content(
        kind="partition-table" if is_table else "filesystem" if usage == "filesystem" else "other",
        name=table if is_table else name,
        uuid=values.get("PTUUID" if is_table else "UUID", "").lower() if is_table else values.get("UUID", ""),
        label="" if is_table else values.get("LABEL", ""),
        size=size,
        block_size=block_size,
        # Not FSSIZE: XFS' leaves the log out.
        filesystem_size=min(block_size * int(values.get("FSLASTBLOCK", "0")), MAX_SIZE),
        sector_size=sectors,
        partitions=_read_partitions(handle) if is_table else (),
    )


def _read_values(handle: int) -> dict[str, str]:
    library = _load()
    values: dict[str, str] = {}
    for index in range(library.blkid_probe_numof_values(handle)):
        name, data, length = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        done = library.blkid_probe_get_value(
            handle, index, ctypes.byref(name), ctypes.byref(data), ctypes.byref(length)
        )
        if done == 0 and name.value and data.value:
            text = ctypes.string_at(data.value, length.value).rstrip(b"\0")
            values[name.value.decode()] = text.decode(errors="replace")
    return values


def _read_partitions(handle: int) -> tuple[Partition, ...]:
    library = _load()
    table = library.blkid_probe_get_partitions(handle)
    if not table:
        return ()
    found: list[Partition] = []
    for index in range(library.blkid_partlist_numof_partitions(table)):
        row = library.blkid_partlist_get_partition(table, index)
        if row:
            found.append(
                Partition(
                    number=library.blkid_partition_get_partno(row),
                    start=library.blkid_partition_get_start(row) * SECTOR,
                    size=library.blkid_partition_get_size(row) * SECTOR,
                    uuid=_decode(library.blkid_partition_get_uuid(row)).lower(),
                    label=_decode(library.blkid_partition_get_name(row)),
                    type_uuid=_decode(library.blkid_partition_get_type_string(row)).lower(),
                    flags=library.blkid_partition_get_flags(row),
                )
            )
    return tuple(sorted(found, key=lambda row: row.number))


def _decode(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")


@contextmanager
def _open_probe(descriptor: int, path: Path) -> Generator[int]:
    library = _load()
    ctypes.set_errno(0)
    handle: int | None = library.blkid_new_probe()
    if not handle:
        raise _make_error(path)
    try:
        if library.blkid_probe_set_device(handle, descriptor, 0, 0) != 0:
            raise _make_error(path)
        yield handle
    finally:
        library.blkid_free_probe(handle)


def _make_error(path: Path) -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number), str(path))


@cache
def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY, use_errno=True)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    wide = ctypes.c_longlong
    for name, result, arguments in (
        ("blkid_do_safeprobe", number, [pointer]),
        ("blkid_free_probe", None, [pointer]),
        ("blkid_new_probe", pointer, []),
        ("blkid_partition_get_flags", ctypes.c_ulonglong, [pointer]),
        ("blkid_partition_get_name", text, [pointer]),
        ("blkid_partition_get_partno", number, [pointer]),
        ("blkid_partition_get_size", wide, [pointer]),
        ("blkid_partition_get_start", wide, [pointer]),
        ("blkid_partition_get_type_string", text, [pointer]),
        ("blkid_partition_get_uuid", text, [pointer]),
        ("blkid_partlist_get_partition", pointer, [pointer, number]),
        ("blkid_partlist_numof_partitions", number, [pointer]),
        ("blkid_probe_enable_partitions", number, [pointer, number]),
        ("blkid_probe_enable_superblocks", number, [pointer, number]),
        ("blkid_probe_get_partitions", pointer, [pointer]),
        ("blkid_probe_get_sectorsize", ctypes.c_uint, [pointer]),
        ("blkid_probe_get_size", wide, [pointer]),
        ("blkid_probe_get_value", number, [pointer, number, pointer, pointer, pointer]),
        ("blkid_probe_numof_values", number, [pointer]),
        ("blkid_probe_set_device", number, [pointer, number, wide, wide]),
        ("blkid_probe_set_partitions_flags", number, [pointer, number]),
        ("blkid_probe_set_sectorsize", number, [pointer, ctypes.c_uint]),
        ("blkid_probe_set_superblocks_flags", number, [pointer, number]),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
