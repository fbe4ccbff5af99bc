"""Records of NTS key establishment (RFC 8915, section 4): what is requested, and what a server grants."""

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from talos.timed.ntp.packet import PORT

MAX_COOKIES = 8
MAX_COOKIE = 512
"""Bytes; usual ones have about 100. A request with eight of this size still fits into what is read."""
_CRITICAL = 0x8000
_END, _NEXT_PROTOCOL, _ERROR, _WARNING, _AEAD, _COOKIE, _SERVER, _PORT = range(8)
_NTPV4 = 0
_AES_SIV_CMAC_256 = 15
_HEADER = struct.Struct("!HH")
_NAME = re.compile(r"[0-9A-Za-z.:-]{1,253}")
_ERRORS = {0: "unrecognized critical record", 1: "bad request", 2: "internal server error"}

REQUEST = b"".join(
    _HEADER.pack(_CRITICAL | kind, len(body)) + body
    for kind, body in (
        (_NEXT_PROTOCOL, _NTPV4.to_bytes(2)),
        (_AEAD, _AES_SIV_CMAC_256.to_bytes(2)),
        (_END, b""),
    )
)
"""What a client sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What a server sends: where NTP is served, empty for the same host, and cookies for it."""

    cookies: tuple[bytes, ...]
    server: str = ""
    port: int = PORT


def parse_reply(data: bytes) -> Granted | None:
    """The whole reply; None while its end has not arrived. ValueError with the reason of a useless one."""
    found: dict[int, list[bytes]] = {kind: [] for kind in range(_PORT + 1)}
    for kind, body in _records(data):
        name = kind & ~_CRITICAL
        if name == _END:
            return _parse_bodies(found)
        if name == _ERROR:
            code = int.from_bytes(body)
            raise ValueError(f"it refuses: {_ERRORS.get(code, f'error {code}')}")
        if name in found:
            found[name].append(body)
        elif kind & _CRITICAL:
            raise ValueError(f"it sent the critical record {name}, which is unknown")
    return None


def _parse_bodies(found: Mapping[int, Sequence[bytes]]) -> Granted:
    """What the records of a complete reply grant."""
    cookies = [cookie for cookie in found[_COOKIE] if 0 < len(cookie) <= MAX_COOKIE]
    accepted = _NTPV4.to_bytes(2) in found[_NEXT_PROTOCOL] and _AES_SIV_CMAC_256.to_bytes(2) in found[_AEAD]
    if not accepted or not cookies:
        raise ValueError("it grants no cookies for NTPv4 by AES-SIV-CMAC-256")
    return Granted(
        cookies=tuple(cookies[:MAX_COOKIES]),
        server=_parse_name(found[_SERVER][0]) if found[_SERVER] else "",
        port=int.from_bytes(found[_PORT][0][:2]) if found[_PORT] else PORT,
    )


def _records(data: bytes) -> list[tuple[int, bytes]]:
    """Those that have arrived as a whole."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while len(data) - at >= _HEADER.size:
        kind, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if len(data) - at < length:
            break
        found.append((kind, data[at : at + length]))
        at += length
    return found


def _parse_name(body: bytes) -> str:
    name = body.decode("ascii", errors="replace")
    if not name or len(name) > 253 or not all(char.isalnum() or char in ".-:" for char in name):
        raise ValueError(f"it names {name[:60]!r} as its server")
    return name
