"""The LUKS2 header of an encrypted device: reading, checking and writing it.

Fields and places are those of the LUKS2 On-Disk Format Specification, version 1.1.4. What a header has is
what a device is opened by, and an attacker who held the disk may have written it: only what this system makes
itself is accepted, so that no header turns encryption into a copy of the plain text.
"""

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from talos.system.errors import UserError

MAGICS = (b"LUKS\xba\xbe", b"SKUL\xba\xbe")
"""What the first and the second copy begin with."""
CIPHERS = ("aes-xts-plain64", "xchacha12,aes-adiantum-plain64", "xchacha20,aes-adiantum-plain64")
DATA_OFFSET = 16 << 20
"""Bytes before the data of a device that is encrypted here: both headers and the room of the key slots."""
SECTOR = 512
"""Bytes that a disk writes at once or not at all; a copy's binary part fills one."""
MARK = b"talos: encryption is being set up".ljust(SECTOR, b"\0")
"""The first sector of a device until the header is complete."""
KMS_TOKEN = "sideroKMS"  # noqa: S105 - no password
"""The type of the token with a slot's sealed key, as upstream's nodes have it; its id is the slot's."""
TPM_TOKEN = "talos-tpm2"  # noqa: S105 - no password
"""That of a key which the TPM has sealed."""
NEXT_TOKEN = "talos-tpm2-next"  # noqa: S105 - no password
"""Our own: that of the same key, sealed to what PCRs will be at a start to come. Its id is not the slot's."""
MAX_TOKENS = 32
"""Of a header; LUKS2_TOKENS_MAX of cryptsetup."""
MAX_SEALED = 4096
"""Bytes of a sealed key."""
_KDFS = ("argon2id", "argon2i", "pbkdf2")
_BINARY = 4096
_MAX_DATA_OFFSET = 64 << 20
_SIZES = tuple(1 << power for power in range(14, 23))
"""Bytes that a copy may have, its JSON included."""
_FIELDS = struct.Struct(">6sHQQ48s32s64s40s48sQ184s64s")
_CHECKSUM = slice(448, 512)
_TOKEN_SIZE = len('"31":,')
"""Bytes that a token takes besides its JSON."""


@dataclass(frozen=True, slots=True)
class NextKey:
    """A slot's key, sealed by the TPM to what PCRs will be at a start to come, as JSON."""

    slot: int
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LuksHeader:
    """A header that passed every check. ``data`` is all before the encrypted part, key slots included.

    ``sealed`` are the keys that another service has to open, by their slots; ``sealed_by_tpm`` those that the
    TPM has to, as JSON. ``next_keys`` are those that it has to at a start to come, by their tokens, and
    ``room`` is how many bytes further tokens may have.
    """

    slots: tuple[int, ...]
    data: bytes
    sealed: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    sealed_by_tpm: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    next_keys: Mapping[int, NextKey] = field(default_factory=dict[int, NextKey])
    tokens: frozenset[int] = frozenset()
    room: int = 0

    def list_sealed_by_tpm(self, slot: int) -> Sequence[bytes]:
        """A slot's key as the TPM has sealed it: first for now, then for the starts to come."""
        now = [self.sealed_by_tpm[slot]] if slot in self.sealed_by_tpm else []
        return [*now, *(key.sealed for _, key in sorted(self.next_keys.items()) if key.slot == slot)]

    def find_places(self, keys: Sequence[NextKey]) -> Sequence[int]:
        """Free tokens for these keys, the last first: the first are for slots. UserError without room."""
        taken = self.tokens | set(self.slots)
        free = [place for place in reversed(range(MAX_TOKENS)) if place not in taken][: len(keys)]
        size = sum(len(make_token(NEXT_TOKEN, key.slot, key.sealed)) + _TOKEN_SIZE for key in keys)
        if len(free) < len(keys) or size > self.room:
            raise UserError(
                f"the LUKS2 header has no room for {len(keys)} more tokens: {self.room} bytes are left"
            )
        return free


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    size: int
    sequence: int
    text: bytes


def read_header(device: str) -> LuksHeader:
    """The header of an encrypted device. UserError when it is damaged or not accepted, OSError."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read(descriptor, device)
    finally:
        os.close(descriptor)


def measure_keys(descriptor: int, offset: int) -> int:
    """The bytes at a place of a disk that hold an encrypted part's key slots; 0 when there is none."""
    places = [(0, MAGICS[0]), *((size, MAGICS[1]) for size in _SIZES)]
    found = any(os.pread(descriptor, len(magic), offset + place) == magic for place, magic in places)
    return _MAX_DATA_OFFSET if found else 0


def write_mark(device: str) -> None:
    """Mark a device as one whose encryption is being set up: one sector, on the disk when this returns."""
    _write(device, [(0, MARK)])


def publish_header(device: str, data: bytes) -> None:
    """Write a complete header over the mark; it holds from the write of its first sector on."""
    (size,) = struct.unpack_from(">Q", data, 8)
    inner = bytearray(data)
    inner[size : size + SECTOR] = bytes(SECTOR)
    first, second = data[:SECTOR], data[size : size + SECTOR]
    _write(device, [(SECTOR, bytes(inner[SECTOR:])), (0, first), (size, second)])


def _write(device: str, pieces: Sequence[tuple[int, bytes]]) -> None:
    """Each piece is on the disk before the next is written."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for place, data in pieces:
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], place + done)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int, where: str) -> LuksHeader:
    copies = [_read_copy(descriptor, 0, MAGICS[0])]
    copies += [_read_copy(descriptor, size, MAGICS[1]) for size in _SIZES]
    whole = [copy for copy in copies if copy is not None]
    if not whole:
        raise UserError("the LUKS2 header is damaged: no copy of it is whole", where=where)
    newest = max(whole, key=lambda copy: copy.sequence)
    if any(copy.sequence == newest.sequence and copy.text != newest.text for copy in whole):
        raise UserError("the LUKS2 header is not accepted: its copies differ", where=where)
    try:
        parsed: Any = json.loads(newest.text.rstrip(b"\0"))
        offset = _check(parsed)
        slots = tuple(sorted(int(slot) for slot in parsed["keyslots"]))
        tokens: Mapping[str, Any] = parsed.get("tokens") or {}
        found = LuksHeader(
            slots=slots,
            data=_read_all(descriptor, offset),
            sealed=dict(_find_sealed(tokens)),
            sealed_by_tpm=dict(_find_sealed_by_tpm(tokens)),
            next_keys=dict(_find_next(tokens)),
            tokens=frozenset(map(int, tokens)),
            room=newest.size - _BINARY - len(newest.text.rstrip(b"\0")) - 1,
        )
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"the LUKS2 header is not accepted: {error}", where=where) from None
    return found


def _find_sealed(tokens: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """The slots' sealed keys. ValueError, KeyError, TypeError, AttributeError."""
    for token_id, token in tokens.items():
        if token["type"] == KMS_TOKEN:
            sealed = base64.b64decode(token["UserData"]["sealedData"], validate=True)
            yield int(token_id), _check_size(token_id, sealed)


def _find_sealed_by_tpm(tokens: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """What the TPM has sealed, unchecked but for its size. The same errors."""
    for token_id, token in tokens.items():
        if token["type"] == TPM_TOKEN:
            yield int(token_id), _check_size(token_id, json.dumps(token["UserData"]).encode())


def _find_next(tokens: Mapping[str, Any]) -> Iterator[tuple[int, NextKey]]:
    """What the TPM has sealed for starts to come, unchecked but for its size. The same errors."""
    for token_id, token in tokens.items():
        if token["type"] == NEXT_TOKEN:
            (slot,) = map(int, token["UserData"]["keyslots"])
            yield int(token_id), NextKey(slot, _check_size(token_id, json.dumps(token["UserData"]).encode()))


def _check_size(token_id: str, sealed: bytes) -> bytes:
    if not 0 < len(sealed) <= MAX_SEALED:
        raise ValueError(f"token {token_id} has {len(sealed)} bytes")
    return sealed


def make_token(kind: str, slot: int, sealed: bytes) -> bytes:
    """The token with a slot's sealed key, as JSON."""
    if kind == KMS_TOKEN:
        data = {"sealedData": base64.b64encode(sealed).decode()}
    else:
        data = {**json.loads(sealed), "keyslots": [slot]}
    return json.dumps({"type": kind, "keyslots": [], "UserData": data}, separators=(",", ":")).encode()


def _read_copy(descriptor: int, place: int, magic: bytes) -> _Copy | None:
    binary = os.pread(descriptor, _BINARY, place)
    if len(binary) < _BINARY or not binary.startswith(magic):
        return None
    _, version, size, sequence, _, name, *_, offset, _, checksum = _FIELDS.unpack_from(binary)
    if version != 2 or size not in _SIZES or offset != place or name.rstrip(b"\0") != b"sha256":
        return None
    text = os.pread(descriptor, size - _BINARY, place + _BINARY)
    blank = bytearray(binary)
    blank[_CHECKSUM] = bytes(64)
    if hashlib.sha256(bytes(blank) + text).digest() != checksum[:32]:
        return None
    return _Copy(size=size, sequence=sequence, text=text)


def _read_all(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.pread(descriptor, size - len(data), len(data))
        if not piece:
            raise ValueError("the device ends before its data")
        data += piece
    return bytes(data)


def _check(parsed: Any) -> int:
    """Where the data begin. ValueError names what is not accepted; KeyError, TypeError, AttributeError."""
    for slot, row in parsed["keyslots"].items():
        if row["type"] != "luks2" or row["kdf"]["type"] not in _KDFS:
            raise ValueError(f"key slot {slot} is of another kind")
        if row["area"]["encryption"] not in CIPHERS:
            raise ValueError(f"key slot {slot} has the cipher {row['area']['encryption']!r}")
    if not parsed["keyslots"]:
        raise ValueError("there is no key slot")
    if parsed["segments"].keys() != {"0"}:
        raise ValueError("there is not exactly one segment")
    segment = parsed["segments"]["0"]
    if segment["type"] != "crypt" or segment.get("flags"):
        raise ValueError("the segment is of another kind")
    if segment["encryption"] not in CIPHERS:
        raise ValueError(f"the segment has the cipher {segment['encryption']!r}")
    offset = int(segment["offset"])
    if not 2 * _SIZES[0] <= offset <= _MAX_DATA_OFFSET:
        raise ValueError(f"the data begin at byte {offset}")
    return offset
