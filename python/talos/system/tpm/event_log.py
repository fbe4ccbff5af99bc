"""The log of what firmware has measured: which event has changed which PCR, and with what data.

The crypto-agile form of the TCG's "PC Client Platform Firmware Profile Specification", revision 1.06, section
10. Firmware writes it and the kernel shows it; anyone who was started before may have changed it. So it is
worth what its replay is: the digests of a PCR's events give the value that the TPM has.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError
from talos.system.tpm.uki import extend
from talos.system.tpm.wire import HASH_SIZE, PCRS, SHA256

LOG = Path("/sys/kernel/security/tpm0/binary_bios_measurements")
VALUES = Path("/sys/class/tpm/tpm0/pcr-sha256")
"""A file for each PCR of the bank, with its value in hexadecimal."""
MAX_LOG, MAX_EVENTS = 8 << 20, 1 << 14
"""Bytes and events that are read: firmware has up to a few hundred KiB, and some hundred events."""
NO_ACTION, SEPARATOR = 0x3, 0x4
DRIVER_CONFIG, AUTHORITY = 0x80000001, 0x800000E0
"""EV_EFI_VARIABLE_DRIVER_CONFIG, EV_EFI_VARIABLE_AUTHORITY: a variable of the firmware's, by its content."""
_WHERE = "the log of measurements"
_SHA1_SIZE = 20
_SIGNATURE = b"Spec ID Event03\0"
_MAX_BANKS = 16
_HASHES = {0x4: 20, SHA256: HASH_SIZE, 0xC: 48, 0xD: 64, 0x12: 32, 0x27: 32, 0x28: 48, 0x29: 64}
"""Bytes of a digest by TPM_ALG: SHA-1, SHA-256, SHA-384, SHA-512, SM3, SHA3 of three sizes."""
_VARIABLE = struct.Struct("<16sQQ")
"""UEFI_VARIABLE_DATA: vendor, letters of the name, bytes of the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a PCR: ``digest`` was measured, the SHA-256 of ``data`` for the events of variables."""

    pcr: int
    kind: int
    digest: bytes
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredVariable:
    """What the event of a variable has. ``vendor`` is a GUID as firmware has it, in little-endian parts."""

    vendor: bytes
    name: str
    content: bytes


class _Reader:
    """Reads one field after the other, as firmware has them. UserError when the data end before."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def is_empty(self) -> bool:
        return self._place == len(self._data)

    def take(self, size: int) -> bytes:
        found = self._data[self._place : self._place + size]
        if len(found) != size:
            raise UserError(f"a field ends after {len(self._data)} bytes", where=_WHERE)
        self._place += size
        return found

    def number(self, form: str) -> int:
        (found,) = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))
        return int(found)


@dataclass(frozen=True, slots=True)
class MeasuredBoot:
    """What was measured since the machine was started. All methods block."""

    log: Path = LOG
    values: Path = VALUES

    def read_value(self, pcr: int) -> bytes:
        """The value of a PCR, of the SHA-256 bank. UserError, OSError."""
        text = (self.values / str(pcr)).read_text("ascii", "replace")
        try:
            value = bytes.fromhex(text)
        except ValueError:
            value = b""
        if len(value) != HASH_SIZE:
            raise UserError(f"the kernel shows no value of PCR {pcr}: {text[:80]!r}", where="the TPM")
        return value

    def read_events(self, pcr: int) -> Sequence[Event]:
        """The events that have changed a PCR. UserError when they do not give its value, OSError."""
        with self.log.open("rb") as file:
            data = file.read(MAX_LOG + 1)
        events = [event for event in parse_log(data) if event.pcr == pcr]
        value, replayed = self.read_value(pcr), replay(events)
        if value != replayed:
            raise UserError(
                f"its events of PCR {pcr} give {replayed.hex()}, the TPM has {value.hex()}", where=_WHERE
            )
        return events


def replay(events: Sequence[Event]) -> bytes:
    """The value of a PCR after these events."""
    value = bytes(HASH_SIZE)
    for event in events:
        value = extend(value, event.digest)
    return value


def parse_log(data: bytes) -> Sequence[Event]:
    """The events that change PCRs, in their order. UserError for a log that is damaged or of another form."""
    if len(data) > MAX_LOG:
        raise UserError(f"it has more than {MAX_LOG} bytes", where=_WHERE)
    reader = _Reader(data)
    banks, found = _read_header(reader), list[Event]()
    while not reader.is_empty:
        if len(found) == MAX_EVENTS:
            raise UserError(f"it has more than {MAX_EVENTS} events", where=_WHERE)
        event = _read_event(reader, banks)
        if event.kind != NO_ACTION:
            found.append(event)
    return found


def parse_variable(data: bytes) -> MeasuredVariable:
    """The data of a variable's event. ValueError where they are others."""
    if len(data) < _VARIABLE.size:
        raise ValueError(f"{len(data)} bytes are no variable's")
    vendor, letters, size = _VARIABLE.unpack_from(data)
    start = _VARIABLE.size + 2 * letters
    if start + size != len(data):
        raise ValueError(f"a variable of {letters} letters and {size} bytes within {len(data)}")
    name = data[_VARIABLE.size : start].decode("utf-16-le")
    return MeasuredVariable(vendor=vendor, name=name, content=data[start:])


def make_variable_event(pcr: int, kind: int, variable: MeasuredVariable) -> Event:
    """The event by which firmware measures a variable."""
    name = variable.name.encode("utf-16-le")
    head = _VARIABLE.pack(variable.vendor, len(name) // 2, len(variable.content))
    data = head + name + variable.content
    return Event(pcr=pcr, kind=kind, digest=hashlib.sha256(data).digest(), data=data)


def _read_header(reader: "_Reader") -> Mapping[int, int]:
    """The bytes of a digest by the log's banks, from its first event, which has the older form."""
    pcr, kind = reader.number("I"), reader.number("I")
    reader.take(_SHA1_SIZE)
    header = _Reader(reader.take(reader.number("I")))
    if (pcr, kind) != (0, NO_ACTION) or header.take(len(_SIGNATURE)) != _SIGNATURE:
        raise UserError("it is not in the crypto-agile form", where=_WHERE)
    header.take(8)  # class, versions, the size of a number
    count = header.number("I")
    if not 0 < count <= _MAX_BANKS:
        raise UserError(f"it has {count} banks", where=_WHERE)
    banks = {header.number("H"): header.number("H") for _ in range(count)}
    if len(banks) != count or banks.get(SHA256) != HASH_SIZE:
        raise UserError("it has no SHA-256 bank", where=_WHERE)
    if any(_HASHES.get(bank, size) != size or not size for bank, size in banks.items()):
        raise UserError(f"it has banks with digests of other sizes: {banks}", where=_WHERE)
    header.take(header.number("B"))  # what the vendor adds
    return banks


def _read_event(reader: "_Reader", banks: Mapping[int, int]) -> Event:
    pcr, kind, count = reader.number("I"), reader.number("I"), reader.number("I")
    if count > len(banks):
        raise UserError(f"an event has {count} digests, the log {len(banks)} banks", where=_WHERE)
    digests: dict[int, bytes] = {}
    for _ in range(count):
        bank = reader.number("H")
        if bank not in banks or bank in digests:
            raise UserError(f"an event has a digest of the bank 0x{bank:x}", where=_WHERE)
        digests[bank] = reader.take(banks[bank])
    data = reader.take(reader.number("I"))
    if kind != NO_ACTION and (pcr >= PCRS or SHA256 not in digests):
        raise UserError(f"an event of PCR {pcr} has no SHA-256, or there is no such PCR", where=_WHERE)
    return Event(pcr=pcr, kind=kind, digest=digests.get(SHA256, b""), data=data)
