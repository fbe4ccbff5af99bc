"""NTP packets authenticated by NTS (RFC 8915, section 5), and the cookies that are spent on them."""

import secrets
import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import override

from talos.api.rpc import Code, RpcError
from talos.timed.ntp.client import Protection, resolve
from talos.timed.ntp.packet import HEADER
from talos.timed.ntp.servers import OpenSession, Session
from talos.timed.nts.key_exchange import Keys, Moment, exchange_keys
from talos.timed.nts.records import MAX_COOKIE, MAX_COOKIES
from talos.timed.nts.siv import decrypt, encrypt

# RFC 8915, section 7.5
_UNIQUE_IDENTIFIER = 0x0104
_COOKIE = 0x0204
_COOKIE_PLACEHOLDER = 0x0304
_AUTHENTICATOR = 0x0404
_FIELD = struct.Struct("!HH")
_IDENTIFIER = 32
_NONCE = 16
_MIN_FIELD = 16


class NtsProtection(Protection):
    """One request and its reply. The new cookies of an authentic reply go to ``keep``."""

    def __init__(self, keys: Keys, cookie: bytes, missing: int, keep: Callable[[bytes], None]) -> None:
        self._keys = keys
        self._cookie = cookie
        self._missing = missing
        self._keep = keep
        self._identifier = secrets.token_bytes(_IDENTIFIER)

    @override
    def seal(self, request: bytes) -> bytes:
        request += _make_field(_UNIQUE_IDENTIFIER, self._identifier) + _make_field(_COOKIE, self._cookie)
        # A placeholder for each cookie that is missing beside the one that is spent here.
        request += _make_field(_COOKIE_PLACEHOLDER, bytes(len(self._cookie))) * self._missing
        nonce = secrets.token_bytes(_NONCE)
        sealed = encrypt(self._keys.to_server, b"", (request, nonce))
        return request + _make_field(_AUTHENTICATOR, struct.pack("!HH", _NONCE, len(sealed)) + nonce + sealed)

    @override
    def is_authentic(self, reply: bytes) -> bool:
        identified = False
        for at, kind, body in _fields(reply, HEADER.size):
            if kind == _UNIQUE_IDENTIFIER:
                identified = body[:_IDENTIFIER] == self._identifier
            elif kind == _AUTHENTICATOR:
                hidden = self._open(reply[:at], body)
                if hidden is None or not identified:
                    return False
                for _, hidden_kind, cookie in _fields(hidden, 0):
                    if hidden_kind == _COOKIE and len(cookie) <= MAX_COOKIE:
                        self._keep(cookie)
                return True
        return False

    def _open(self, authenticated: bytes, body: bytes) -> bytes | None:
        if len(body) < _FIELD.size:
            return None
        nonce_length, sealed_length = _FIELD.unpack_from(body)
        begin = _FIELD.size + _padded(nonce_length)
        nonce, sealed = body[_FIELD.size :][:nonce_length], body[begin : begin + sealed_length]
        if not nonce or len(sealed) != sealed_length:
            return None
        return decrypt(self._keys.to_client, sealed, (authenticated, nonce))


def open_nts(moment: Moment) -> OpenSession:
    """Sessions whose certificates are judged at ``moment``."""

    async def open_session(server: str) -> Session:
        keys = await exchange_keys(server, moment)
        granted = keys.granted
        cookies = deque(granted.cookies, maxlen=MAX_COOKIES)
        addresses = await resolve(granted.server or server, granted.port)
        return Session(addresses=addresses, make_protection=partial(_spend, server, keys, cookies))

    return open_session


async def _spend(server: str, keys: Keys, cookies: deque[bytes]) -> Protection:
    """A protection by the oldest cookie. RpcError when none is left: then new ones are requested."""
    if not cookies:
        raise RpcError(Code.UNAVAILABLE, f"{server} returned no new cookies for NTS")
    cookie = cookies.popleft()
    return NtsProtection(keys, cookie, MAX_COOKIES - 1 - len(cookies), cookies.append)


def _make_field(kind: int, body: bytes) -> bytes:
    length = max(_FIELD.size + _padded(len(body)), _MIN_FIELD)
    return _FIELD.pack(kind, length) + body.ljust(length - _FIELD.size, b"\0")


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, bytes]]:
    """Position, type and body of each extension field, up to one that is malformed."""
    while len(data) - at >= _FIELD.size:
        kind, length = _FIELD.unpack_from(data, at)
        if length < _FIELD.size or length % 4 or at + length > len(data):
            return
        yield at, kind, data[at + _FIELD.size : at + length]
        at += length


def _padded(length: int) -> int:
    return -(-length // 4) * 4
