"""What the kernel kept over a reset, in memory or in variables of the firmware: /sys/fs/pstore."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PSTORE = Path("/sys/fs/pstore")
MAX_RECORD = 1 << 20
"""Bytes read of a record."""
MAX_RECORDS = 256
"""A panic takes ten of the firmware's variables."""
CONSOLE, DUMP = "console", "dmesg"
"""Kinds of records: all that a boot has logged, and what the kernel logged last before it panicked."""
_NAME = re.compile(r"(console|dmesg)-[A-Za-z0-9_]{1,32}-\d{1,20}")
_HEAD = re.compile(rb"(?:Panic|Oops)#(\d{1,9}) Part(\d{1,9})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. ``written`` in seconds since the epoch, by the clock of the system that is gone."""

    kind: str
    written: float
    data: bytes


def read_records(folder: Path = PSTORE) -> list[Record]:
    """The records that can be read, the oldest first."""
    found: list[Record] = []
    for path in _list(folder)[:MAX_RECORDS]:
        with suppress(OSError), path.open("rb") as file:
            kind = path.name.partition("-")[0]
            found.append(Record(kind=kind, written=path.stat().st_mtime, data=file.read(MAX_RECORD)))
    return sorted(found, key=lambda record: record.written)


def erase_records(folder: Path = PSTORE) -> None:
    """Make room for the next; the console's has its own and stays. OSError."""
    for path in _list(folder):
        if path.name.startswith(DUMP):
            path.unlink(missing_ok=True)


def _list(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def join_dump(records: Sequence[Record]) -> bytes:
    """The text of the last panic: its parts are numbered from the end of the log."""
    parts: dict[tuple[int, int], bytes] = {}
    for record in records:
        if record.kind == DUMP and (head := _HEAD.match(record.data)):
            parts[int(head[1]), -int(head[2])] = record.data[head.end() :]
    return b"".join(parts[key] for key in sorted(parts))
