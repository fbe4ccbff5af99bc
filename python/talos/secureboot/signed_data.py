"""What RSA with SHA-256 signs for firmware: SignedData of PKCS #7 (RFC 2315, section 9), certificates."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from talos.pki.signer import Signer

_INTEGER, BITS, _OCTETS, _NULL, _OBJECT = 0x02, 0x03, 0x04, 0x05, 0x06
SEQUENCE, _SET, FIRST = 0x30, 0x31, 0xA0
"""Tags of DER (ITU-T X.690); the last one is of a structure's part 0."""
_CONTENT_TYPE, _MESSAGE_DIGEST = "2a864886f70d010903", "2a864886f70d010904"
_DATA, SIGNED_DATA = "2a864886f70d010701", "2a864886f70d010702"
_RSA, _SHA256_RSA = "2a864886f70d010101", "2a864886f70d01010b"
_SHA256 = "608648016503040201"
"""Object identifiers (RFC 2315, 2985, 4055, 5754), as they are encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningPair:
    """A certificate, and who signs with its key, which is RSA."""

    certificate: x509.Certificate
    signer: Signer


def encode(tag: int, *parts: bytes) -> bytes:
    """An element in DER."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    number = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(number)]) + number + content


def encode_object(identifier: str) -> bytes:
    """An object identifier, which is given as it is encoded, in hexadecimal."""
    return encode(_OBJECT, bytes.fromhex(identifier))


def encode_digest(digest: bytes) -> bytes:
    """The algorithm SHA-256, and a digest."""
    return encode(SEQUENCE, _algorithm(_SHA256), encode(_OCTETS, digest))


def sign_detached(content: bytes, pair: SigningPair) -> bytes:
    """A signature of bytes that are not in it, without attributes. UserError."""
    return _make(encode(SEQUENCE, encode_object(_DATA)), pair, b"", pair.signer.sign(content))


def sign_content(kind: str, content: bytes, pair: SigningPair) -> bytes:
    """A signature of a sequence of this kind (an object identifier) with this content, which is in it.

    It has no time, so that it is the same each time. UserError.
    """
    attributes: Mapping[str, bytes] = {
        _CONTENT_TYPE: encode_object(kind),
        _MESSAGE_DIGEST: encode(_OCTETS, hashlib.sha256(content).digest()),
    }
    rows = sorted(
        encode(SEQUENCE, encode_object(name), encode(_SET, value)) for name, value in attributes.items()
    )
    # What is signed is the set itself, not its place in the structure (section 9.3).
    signature = pair.signer.sign(encode(_SET, *rows))
    wrapped = encode(SEQUENCE, encode_object(kind), encode(FIRST, encode(SEQUENCE, content)))
    return _make(wrapped, pair, encode(FIRST, *rows), signature)


def sign_certificate(builder: x509.CertificateBuilder, signer: Signer) -> x509.Certificate:
    """The certificate, signed by a key that need not be in memory, RSA with SHA-256. UserError."""
    # The library signs with private keys only: what another one has signed is signed anew.
    other = generate_private_key(65537, 2048)
    content = builder.sign(other, SHA256()).tbs_certificate_bytes
    signature = encode(BITS, b"\0", signer.sign(content))
    return x509.load_der_x509_certificate(encode(SEQUENCE, content, _algorithm(_SHA256_RSA), signature))


def _make(content: bytes, pair: SigningPair, attributes: bytes, signature: bytes) -> bytes:
    certificate = pair.certificate
    serial = certificate.serial_number
    number = encode(_INTEGER, serial.to_bytes(serial.bit_length() // 8 + 1))
    signer = encode(
        SEQUENCE,
        encode(_INTEGER, b"\x01"),
        encode(SEQUENCE, certificate.issuer.public_bytes(), number),
        _algorithm(_SHA256),
        attributes,
        _algorithm(_RSA),
        encode(_OCTETS, signature),
    )
    return encode(
        SEQUENCE,
        encode(_INTEGER, b"\x01"),
        encode(_SET, _algorithm(_SHA256)),
        content,
        encode(FIRST, certificate.public_bytes(Encoding.DER)),
        encode(_SET, signer),
    )


def _algorithm(identifier: str) -> bytes:
    return encode(SEQUENCE, encode_object(identifier), encode(_NULL))
