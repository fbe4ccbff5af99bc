"""Logs of measurements as firmware writes them, with nothing of the code under test."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from talos.system.tpm.event_log import MeasuredBoot

NO_ACTION, SEPARATOR, DRIVER_CONFIG, AUTHORITY = 0x3, 0x4, 0x80000001, 0x800000E0
GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
BANKS = ((0x4, "sha1"), (0xB, "sha256"))

type Measured = tuple[int, int, bytes]
"""A PCR, the kind of an event, and the data whose digest is measured."""


def pack_variable(vendor: UUID, name: str, content: bytes) -> bytes:
    """The data of a variable's event."""
    return vendor.bytes_le + struct.pack("<QQ", len(name), len(content)) + name.encode("utf-16-le") + content


def measure_secure_boot(db: bytes, dbx: bytes, *authorities: bytes) -> Sequence[Measured]:
    """What EDK II measures into PCR 7: variables, a separator, then the entries of db that were used."""
    contents = (("SecureBoot", b"\1"), ("PK", b"pk"), ("KEK", b"kek"))
    return [
        *((7, DRIVER_CONFIG, pack_variable(GLOBAL, name, content)) for name, content in contents),
        (7, DRIVER_CONFIG, pack_variable(SECURITY, "db", db)),
        (7, DRIVER_CONFIG, pack_variable(SECURITY, "dbx", dbx)),
        (7, SEPARATOR, bytes(4)),
        *((7, AUTHORITY, pack_variable(SECURITY, "db", entry)) for entry in authorities),
    ]


def replay(measured: Sequence[Measured], pcr: int = 7) -> bytes:
    """The value of a PCR."""
    value = bytes(32)
    for number, _, data in measured:
        if number == pcr:
            value = hashlib.sha256(value + hashlib.sha256(data).digest()).digest()
    return value


def pack_header(banks: Sequence[tuple[int, str]] = BANKS) -> bytes:
    """The first event of a log."""
    body = b"Spec ID Event03\0" + struct.pack("<IBBBBI", 0, 0, 2, 106, 2, len(banks))
    for number, name in banks:
        body += struct.pack("<HH", number, hashlib.new(name).digest_size)
    body += b"\3ven"
    return struct.pack("<II20sI", 0, NO_ACTION, b"", len(body)) + body


def pack_event(pcr: int, kind: int, data: bytes, banks: Sequence[tuple[int, str]] = BANKS) -> bytes:
    """An event with a digest for each bank."""
    digests = b"".join(struct.pack("<H", number) + hashlib.new(name, data).digest() for number, name in banks)
    return struct.pack("<III", pcr, kind, len(banks)) + digests + struct.pack("<I", len(data)) + data


def pack_log(measured: Sequence[Measured]) -> bytes:
    """A log, with events of other PCRs, and one that changes none."""
    rows = [(0, NO_ACTION, b"StartupLocality\0\3"), (0, 0x8, b"version"), *measured, (4, SEPARATOR, bytes(4))]
    return pack_header() + b"".join(pack_event(*row) for row in rows)


def measure(folder: Path, measured: Sequence[Measured]) -> MeasuredBoot:
    """A machine that was started so, as the kernel shows it."""
    (folder / "values").mkdir(parents=True, exist_ok=True)
    (folder / "log").write_bytes(pack_log(measured))
    for pcr in range(24):
        (folder / f"values/{pcr}").write_text(f"{replay(measured, pcr).hex().upper()}\n")
    return MeasuredBoot(folder / "log", folder / "values")
