"""Private keys: generated, written and read in the forms that the API's other implementations use.

The PEM types are ``ED25519 PRIVATE KEY`` (a PKCS#8 body under another label),
``EC PRIVATE KEY`` (SEC 1) and ``RSA PRIVATE KEY`` (PKCS#1).

    make_key(KeyType.P256) -> PrivateKey
    key_to_pem(key) -> bytes
    parse_key(pem, where="machine.ca.key") -> PrivateKey
"""

import base64
import enum
import hashlib
import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from talos.system.errors import UserError

type PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

type PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey


class KeyType(enum.Enum):
    """The kinds of key that are generated."""

    ED25519 = "ed25519"
    P256 = "p256"
    RSA4096 = "rsa4096"


_KEY_PEM = re.compile(
    rb"-----BEGIN (?P<type>ED25519 |EC |RSA |)PRIVATE KEY-----\s"
    rb"[A-Za-z0-9+/=\s]++-----END (?P=type)PRIVATE KEY-----"
)

_MAX_PEM = 64 * 1024  # bytes of PEM; RSA of 16384 bits has 13 KiB
_RSA_EXPONENT = 65537
_MINIMUM_RSA_BITS = 2048  # NIST SP 800-131A: anything shorter is disallowed


def make_key(key_type: KeyType) -> PrivateKey:
    """A fresh random key."""
    match key_type:
        case KeyType.ED25519:
            return ed25519.Ed25519PrivateKey.generate()
        case KeyType.P256:
            return ec.generate_private_key(ec.SECP256R1())
        case KeyType.RSA4096:
            return rsa.generate_private_key(_RSA_EXPONENT, 4096)


def key_to_pem(key: PrivateKey) -> bytes:
    """The key as PEM, unencrypted."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        der = key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _make_pem("ED25519 PRIVATE KEY", der)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_key_to_pem(key: PrivateKey) -> bytes:
    """The public half of a key as PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def key_fingerprint(key: CertificatePublicKeyTypes) -> str:
    """SHA-256 of a public key (SubjectPublicKeyInfo), in pairs of hexadecimal digits."""
    data = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).digest().hex(":").upper()


def parse_public_key(pem: bytes, *, where: str = "public key") -> PublicKey:
    """A public key in PEM; UserError."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise UserError("is no public key in PEM", where=where) from None
    if isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        return key
    raise UserError("is no ECDSA, Ed25519 or RSA key", where=where)


def parse_key(pem: bytes, *, where: str = "key") -> PrivateKey:
    """Read a PEM key of any of the kinds above, or PKCS#8 under its usual label.

    UserError: when it is not such a key.
    """
    if len(pem) > _MAX_PEM:
        raise UserError("too long for a private key", where=where, hint=f"at most {_MAX_PEM} bytes")
    found = _KEY_PEM.search(pem)
    if found is None:
        raise UserError("no private key in PEM form", where=where, hint=_describe(pem))
    # OpenSSL reads PKCS#8 as "PRIVATE KEY" only.
    text = found.group(0).replace(b"ED25519 PRIVATE KEY", b"PRIVATE KEY")
    try:
        # OpenSSL's proof that RSA's factors are prime takes a second, in PID 1 of a booting node.
        key = serialization.load_pem_private_key(text, password=None, unsafe_skip_rsa_key_validation=True)
        _check_factors(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UserError(
            "the private key is damaged",
            where=where,
            hint="copy the whole block, from BEGIN to END",
        ) from error
    match key:
        case ed25519.Ed25519PrivateKey():
            return key
        case ec.EllipticCurvePrivateKey():
            return key
        case rsa.RSAPrivateKey() if key.key_size >= _MINIMUM_RSA_BITS:
            return key
        case _:
            raise UserError(
                "unsupported kind of private key",
                where=where,
                hint=f"use Ed25519, ECDSA, or RSA with at least {_MINIMUM_RSA_BITS} bits",
            )


def _check_factors(key: object) -> None:
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        if numbers.p * numbers.q != numbers.public_numbers.n:
            raise ValueError("the factors are not those of the modulus")


def _make_pem(pem_type: str, der: bytes) -> bytes:
    body = base64.b64encode(der).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {pem_type}-----", *lines, f"-----END {pem_type}-----", ""]).encode()


def _describe(pem: bytes) -> str:
    other = re.search(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----", pem)
    if other is not None:
        return f"this is a {other.group(1).decode()}"
    return "expected a block that begins with -----BEGIN ... PRIVATE KEY-----"
