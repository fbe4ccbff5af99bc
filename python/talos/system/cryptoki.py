"""PKCS #11 (Cryptoki 2.40): a private key in a token signs, by the library of the token's maker.

    sign(path, Choice(token="owner", label="release"), fetch_pin, EDDSA, data) -> bytes

Each signature opens the library, logs in and closes it again. The library runs within this process, and may
wait as long as it likes, for a touch or a PIN that is entered on the device.
"""

import ctypes
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SHA256_RSA_PKCS, EDDSA = 0x40, 0x1057
"""Mechanisms: RSA by PKCS #1 v1.5 with SHA-256; EdDSA."""
_PRIVATE_KEY = 3
_CLASS, _LABEL, _ID, _ALWAYS_AUTHENTICATE = 0x0, 0x3, 0x102, 0x202
"""Attributes of an object; the last one demands another login for each signature."""
_LOGIN_REQUIRED, _OWN_KEYPAD, _INITIALIZED = 0x4, 0x100, 0x400
"""Flags of a token."""
_USER, _FOR_THIS_KEY = 1, 2
_SERIAL_SESSION = 0x4
_MAX_KEYS, _MAX_SIGNATURE = 64, 2048
_OK, _ALREADY_LOGGED_IN = 0x0, 0x100
_REASONS = {
    0x05: "general error",
    0x30: "device error",
    0x32: "the device was removed",
    0x63: "the key is of another kind",
    0x68: "the key must not sign",
    0x70: "the token does not sign so",
    0xA0: "the PIN is wrong",
    0xA2: "the PIN is too long or too short",
    0xA4: "the PIN is locked",
    0xE0: "there is no token",
    0x101: "it wants a login",
    0x102: "it has no PIN yet",
}
"""Of return values (CKR)."""

_ulong = ctypes.c_ulong
_SLOT, _SESSION, _POINTER = _ulong, _ulong, ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[int, Sequence[type[ctypes.c_ulong | ctypes.c_void_p | ctypes.c_ubyte]]]] = {
    "C_Initialize": (0, [_POINTER]),
    "C_Finalize": (1, [_POINTER]),
    "C_GetSlotList": (4, [ctypes.c_ubyte, _POINTER, _POINTER]),
    "C_GetTokenInfo": (6, [_SLOT, _POINTER]),
    "C_OpenSession": (12, [_SLOT, _ulong, _POINTER, _POINTER, _POINTER]),
    "C_CloseSession": (13, [_SESSION]),
    "C_Login": (18, [_SESSION, _ulong, _POINTER, _ulong]),
    "C_GetAttributeValue": (24, [_SESSION, _ulong, _POINTER, _ulong]),
    "C_FindObjectsInit": (26, [_SESSION, _POINTER, _ulong]),
    "C_FindObjects": (27, [_SESSION, _POINTER, _ulong, _POINTER]),
    "C_FindObjectsFinal": (28, [_SESSION]),
    "C_SignInit": (42, [_SESSION, _POINTER, _ulong]),
    "C_Sign": (43, [_SESSION, _POINTER, _ulong, _POINTER, _POINTER]),
}
"""Places in CK_FUNCTION_LIST behind its version, and arguments."""


class TokenError(Exception):
    """Why a token does not sign, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which key signs; what is None is left out."""

    token: str | None = None
    manufacturer: str | None = None
    model: str | None = None
    serial: str | None = None
    slot: int | None = None
    label: str | None = None
    id: bytes | None = None


class _TokenInfo(ctypes.Structure):
    _fields_ = (
        ("label", ctypes.c_char * 32),
        ("manufacturer", ctypes.c_char * 32),
        ("model", ctypes.c_char * 16),
        ("serial", ctypes.c_char * 16),
        ("flags", _ulong),
        ("counts", _ulong * 10),
        ("versions", ctypes.c_ubyte * 4),
        ("time", ctypes.c_char * 16),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (("type", _ulong), ("value", _POINTER), ("size", _ulong))


class _Mechanism(ctypes.Structure):
    _fields_ = (("mechanism", _ulong), ("parameter", _POINTER), ("size", _ulong))


def sign(path: str, choice: Choice, fetch_pin: Callable[[], str], mechanism: int, data: bytes) -> bytes:
    """A signature by the one key that is chosen, with the library at ``path``.

    ``fetch_pin`` is called where the token wants one. TokenError, and what that raises.
    """
    library = _Library(path)
    with library.open():
        slot, flags = _find_token(library, choice)
        session = _ulong()
        library.call("C_OpenSession", slot, _SERIAL_SESSION, None, None, ctypes.byref(session))
        pin = "" if flags & _OWN_KEYPAD or not flags & _LOGIN_REQUIRED else fetch_pin()
        if flags & _LOGIN_REQUIRED:
            _login(library, session, _USER, pin)
        key = _find_key(library, session, choice)
        how = _Mechanism(mechanism, None, 0)
        library.call("C_SignInit", session, ctypes.byref(how), key)
        if _needs_second_login(library, session, key):
            _login(library, session, _FOR_THIS_KEY, pin)
        answer, size = ctypes.create_string_buffer(_MAX_SIGNATURE), _ulong(_MAX_SIGNATURE)
        library.call("C_Sign", session, data, len(data), answer, ctypes.byref(size))
        library.call("C_CloseSession", session)
        return answer.raw[: size.value]


class _Library:
    def __init__(self, path: str) -> None:
        if os.name == "nt":
            raise TokenError("Windows has other structures of PKCS #11 (sign on another system)")
        table = _POINTER()
        try:
            library = ctypes.CDLL(path)
            result = library.C_GetFunctionList(ctypes.byref(table))
        except OSError as error:
            raise TokenError(f"can't be loaded: {error}") from None
        except AttributeError:
            raise TokenError(f"{path} is no library of PKCS #11") from None
        if result != _OK or table.value is None:
            raise TokenError(f"{path} has no functions")
        # The version, of two bytes, takes the room of a pointer.
        places = ctypes.cast(table.value + ctypes.sizeof(_POINTER), ctypes.POINTER(_POINTER))
        self._functions = {
            name: ctypes.CFUNCTYPE(_ulong, *kinds)(places[index] or 0)
            for name, (index, kinds) in _FUNCTIONS.items()
        }
        self._library = library

    def call(self, name: str, *arguments: object, known: Sequence[int] = (_OK,)) -> None:
        """Call a function; TokenError for other results than those ``known``."""
        result = self._functions[name](*arguments)
        if result not in known:
            reason = _REASONS.get(result, "it gives no reason")
            raise TokenError(f"{name} failed with {result:#x}: {reason}")

    @contextmanager
    def open(self) -> Generator[None]:
        """Within this, the library may be called."""
        self.call("C_Initialize", None)
        try:
            yield
        finally:
            self.call("C_Finalize", None)


def _find_token(library: _Library, choice: Choice) -> tuple[int, int]:
    """The slot and the flags of the one token that is chosen."""
    count = _ulong(_MAX_KEYS)
    slots = (_ulong * _MAX_KEYS)()
    library.call("C_GetSlotList", 1, slots, ctypes.byref(count))
    found: list[tuple[int, int]] = []
    labels: list[str] = []
    for slot in slots[: count.value]:
        info = _TokenInfo()
        library.call("C_GetTokenInfo", slot, ctypes.byref(info))
        if not info.flags & _INITIALIZED:
            continue
        labels.append(_text(info.label))
        have = (labels[-1], _text(info.manufacturer), _text(info.model), _text(info.serial), slot)
        want = (choice.token, choice.manufacturer, choice.model, choice.serial, choice.slot)
        if all(one is None or one == other for one, other in zip(want, have, strict=True)):
            found.append((slot, info.flags))
    if len(found) == 1:
        return found[0]
    if found:
        raise TokenError(f"{len(found)} tokens are meant, of {', '.join(labels)}")
    raise TokenError(f"there is no such token, but {', '.join(labels) or 'none at all'}")


def _text(padded: bytes) -> str:
    return padded.decode(errors="replace").rstrip(" ")


def _login(library: _Library, session: _ulong, user: int, pin: str) -> None:
    data = pin.encode()
    known = (_OK, _ALREADY_LOGGED_IN)
    library.call("C_Login", session, user, data or None, len(data), known=known)


def _find_key(library: _Library, session: _ulong, choice: Choice) -> int:
    kind = ctypes.create_string_buffer(_PRIVATE_KEY.to_bytes(ctypes.sizeof(_ulong), "little"))
    wanted = [(_CLASS, kind, ctypes.sizeof(_ulong))]
    label = None if choice.label is None else choice.label.encode()
    for name, value in ((_LABEL, label), (_ID, choice.id)):
        if value is not None:
            wanted.append((name, ctypes.create_string_buffer(value), len(value)))
    rows = [_Attribute(name, ctypes.addressof(buffer), size) for name, buffer, size in wanted]
    template = (_Attribute * len(rows))(*rows)
    library.call("C_FindObjectsInit", session, template, len(rows))
    keys, count = (_ulong * _MAX_KEYS)(), _ulong()
    library.call("C_FindObjects", session, keys, _MAX_KEYS, ctypes.byref(count))
    library.call("C_FindObjectsFinal", session)
    if count.value != 1:
        raise TokenError(f"{count.value or 'none'} of the token's private keys are meant, not one")
    return keys[0]


def _needs_second_login(library: _Library, session: _ulong, key: int) -> bool:
    value = ctypes.c_ubyte()
    row = _Attribute(_ALWAYS_AUTHENTICATE, ctypes.addressof(value), 1)
    try:
        library.call("C_GetAttributeValue", session, key, ctypes.byref(row), 1)
    except TokenError:  # a token without that attribute
        return False
    return bool(value.value)
