"""AEAD_AES_SIV_CMAC_256 (RFC 5297), which NTS demands: cryptography's, and what that leaves out.

OpenSSL refuses to encrypt nothing at all, which is what a client's request has to hide. With an empty text
the whole result is the synthetic IV, a chain of CMACs.
"""

import hmac
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

KEY = 32
"""Bytes: one half authenticates, the other one encrypts."""
TAG = 16
"""Bytes that a text becomes longer by."""
_POLYNOMIAL = 0x87
_BLOCK = 16


def encrypt(key: bytes, text: bytes, associated: Sequence[bytes]) -> bytes:
    """The synthetic IV and the encrypted text."""
    if not text:
        return _make_iv_of_empty(key, associated)
    return AESSIV(key).encrypt(text, list(associated))


def decrypt(key: bytes, sealed: bytes, associated: Sequence[bytes]) -> bytes | None:
    """The text; None when anything was changed."""
    if len(sealed) < TAG:
        return None
    if len(sealed) == TAG:
        return b"" if hmac.compare_digest(sealed, _make_iv_of_empty(key, associated)) else None
    try:
        return AESSIV(key).decrypt(sealed, list(associated))
    except InvalidTag:
        return None


def _make_iv_of_empty(key: bytes, associated: Sequence[bytes]) -> bytes:
    """S2V of RFC 5297, section 2.4, with an empty last string."""
    half = key[: KEY // 2]
    chain = _mac(half, bytes(_BLOCK))
    for data in associated:
        chain = _xor(_double(chain), _mac(half, data))
    return _mac(half, _xor(_double(chain), b"\x80".ljust(_BLOCK, b"\0")))


def _mac(key: bytes, data: bytes) -> bytes:
    mac = CMAC(AES(key))
    mac.update(data)
    return mac.finalize()


def _double(block: bytes) -> bytes:
    doubled = int.from_bytes(block) << 1
    if doubled >> _BLOCK * 8:
        doubled ^= 1 << _BLOCK * 8 | _POLYNOMIAL
    return doubled.to_bytes(_BLOCK)


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(_BLOCK)
