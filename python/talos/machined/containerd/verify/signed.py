"""What was signed, and with what signature."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256, HashAlgorithm

from talos.pki.keys import PublicKey
from talos.system.errors import UserError

_SHA256 = SHA256()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signature of ``data``. ``material`` is what a bundle has to verify it with."""

    data: bytes
    signature: bytes
    logged: Mapping[str, bytes]
    """Kinds of entries that a log may have for it, with what is hashed in each."""
    material: Mapping[str, Any] = field(default_factory=dict[str, Any])


def check_signature(signed: Signed, key: PublicKey, text: str, where: str) -> None:
    """Whether a key has made the signature; UserError with the text."""
    try:
        verify(key, signed.signature, signed.data)
    except InvalidSignature:
        raise UserError(text, where=where) from None


def verify(key: PublicKey, signature: bytes, data: bytes, curve_hash: HashAlgorithm = _SHA256) -> None:
    """Verify by the kind of the key; InvalidSignature. ``curve_hash`` is what an ECDSA key signs."""
    match key:
        case ec.EllipticCurvePublicKey():
            key.verify(signature, data, ec.ECDSA(curve_hash))
        case rsa.RSAPublicKey():
            key.verify(signature, data, padding.PKCS1v15(), SHA256())
        case ed25519.Ed25519PublicKey():
            key.verify(signature, data)
