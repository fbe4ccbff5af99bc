"""Whether firmware with Secure Boot would start an EFI program: its signature, and who has made it.

Microsoft's "Windows Authenticode Portable Executable Signature Format"; RFC 2315 (PKCS #7) has the
structures. Only what ``sbsign`` writes is read: one signer, RSA, SHA-256.
"""

import hashlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256

from talos.system.pe import Program

MAX_SIGNATURES = 64 << 10
"""Bytes of all signatures of a program."""
_OCTETS, _OBJECT, _SEQUENCE, _SET, _FIRST = 0x04, 0x06, 0x30, 0x31, 0xA0
_UNREADABLE = (IndexError, KeyError, ValueError, TypeError, UnsupportedAlgorithm)
"""Of what is no signature, or has no certificate."""
_MESSAGE_DIGEST = bytes.fromhex("2a864886f70d010904")
"""The attribute with the digest of what is signed, 1.2.840.113549.1.9.4."""


@dataclass(frozen=True, slots=True)
class _Element:
    """An element in DER: ``data`` is all of it, ``content`` what is in it."""

    tag: int
    data: bytes
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose programs firmware starts. ``revoked`` precedes ``trusted``.

    ``digests`` are SHA-256 of programs that are revoked, and of the signed parts of certificates that are.
    """

    trusted: Sequence[x509.Certificate]
    revoked: Sequence[x509.Certificate] = ()
    digests: Set[bytes] = frozenset()


def check_signature(program: Program, trust: Trust) -> x509.Certificate:
    """The trusted certificate that has signed a program, or issued the one which has.

    ValueError, with the reason, where there is none, and where what has signed it, or itself, is revoked.
    """
    signatures = program.read_signatures(MAX_SIGNATURES)
    if not signatures:
        raise ValueError("it is not signed")
    digest, signers = program.hash(), list[x509.Certificate]()
    if digest in trust.digests:
        raise ValueError("it is revoked by its digest")
    for signature in signatures:
        signer, name = _verify(signature, digest)
        if _hash_signed_part(signer) in trust.digests or _find_issuer(signer, trust.revoked):
            raise ValueError(f"it is signed by {name}, whose certificate is revoked")
        signers.append(signer)
    for signer in signers:
        if found := _find_issuer(signer, trust.trusted):
            return found
    names = " and ".join(signer.subject.rfc4514_string() for signer in signers)
    raise ValueError(f"it is signed by {names}, whose certificate the firmware does not have")


def read_certificates(program: Program) -> Sequence[x509.Certificate]:
    """All certificates in the signatures of a program, the signers' and others; ValueError."""
    found: list[x509.Certificate] = []
    for signature in program.read_signatures(MAX_SIGNATURES):
        try:
            found += _parse(signature).certificates
        except _UNREADABLE:
            raise ValueError("its signature is none that firmware reads") from None
    return found


def _hash_signed_part(certificate: x509.Certificate) -> bytes:
    return hashlib.sha256(certificate.tbs_certificate_bytes).digest()


def _find_issuer(
    signer: x509.Certificate, certificates: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """The first of these certificates that is the signer's, or has issued it."""
    return next((each for each in certificates if is_issued(signer, each)), None)


def is_issued(signer: x509.Certificate, other: x509.Certificate) -> bool:
    """Whether a certificate is another one, or was issued by it."""
    if signer == other:
        return True
    try:
        signer.verify_directly_issued_by(other)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """A signature: ``content`` is what is signed by way of its digest among the ``attributes``."""

    content: bytes
    image_digest: bytes
    certificates: Sequence[x509.Certificate]
    certificate: x509.Certificate | None
    name: str
    key: PublicKeyTypes | None
    attributes: _Element
    content_digest: bytes
    value: bytes


def _verify(signature: bytes, digest: bytes) -> tuple[x509.Certificate, str]:
    """Who has made a signature, and the name; ValueError for one of another digest, or a damaged one."""
    try:
        found = _parse(signature)
    except _UNREADABLE:
        raise ValueError("its signature is none that firmware reads") from None
    if found.image_digest != digest:
        raise ValueError("it was changed after it was signed")
    if found.certificate is None or not isinstance(found.key, RSAPublicKey):
        raise ValueError("its signature has no certificate with an RSA key")
    if found.content_digest != hashlib.sha256(found.content).digest():
        raise ValueError("its signature is not of its digest")
    try:
        # What is signed is the set itself, not its place in the structure (RFC 2315, section 9.3).
        found.key.verify(found.value, bytes([_SET]) + found.attributes.data[1:], PKCS1v15(), SHA256())
    except InvalidSignature:
        raise ValueError("its signature is damaged") from None
    return found.certificate, found.name


def _parse(signature: bytes) -> _Signature:
    """The parts of the one signer's signature."""
    outer = _read(signature, _SEQUENCE)
    (wrapped,) = _split(_pick(outer.content, _FIRST).content)
    parts = _split(wrapped.content)
    # Version, algorithms, content, certificates, perhaps revocations, signers.
    (indirect,) = _split(_pick(parts[2].content, _FIRST).content)
    (_, of_image) = _split(indirect.content)
    certificates = [x509.load_der_x509_certificate(part.data) for part in _split(parts[3].content)]
    (signer,) = _split(parts[-1].content)
    fields = _split(signer.content)
    # Version, issuer and serial number, algorithm, attributes, algorithm, signature.
    if [fields[place].tag for place in (1, 3, 5)] != [_SEQUENCE, _FIRST, _OCTETS] or parts[3].tag != _FIRST:
        raise ValueError("unknown fields")
    certificate = next((each for each in certificates if _is_named(each, fields[1])), None)
    return _Signature(
        content=indirect.content,
        image_digest=_split(of_image.content)[1].content,
        certificates=certificates,
        certificate=certificate,
        name=certificate.subject.rfc4514_string() if certificate else "",
        key=certificate.public_key() if certificate else None,
        attributes=fields[3],
        content_digest=_find_digest(fields[3]),
        value=fields[5].content,
    )


def _is_named(certificate: x509.Certificate, name: _Element) -> bool:
    issuer, serial = _split(name.content)
    number = int.from_bytes(serial.content, "big", signed=True)
    return certificate.issuer.public_bytes() == issuer.data and certificate.serial_number == number


def _find_digest(attributes: _Element) -> bytes:
    for attribute in _split(attributes.content):
        kind, values = _split(attribute.content)
        if kind.tag == _OBJECT and kind.content == _MESSAGE_DIGEST:
            return _split(values.content)[0].content
    return b""


def _pick(data: bytes, tag: int) -> _Element:
    return next((each for each in _elements(data) if each.tag == tag), _Element(tag, b"", b""))


def _read(data: bytes, tag: int) -> _Element:
    """The first element, which may be followed by padding."""
    first = next(_elements(data), None)
    if first is None or first.tag != tag:
        raise ValueError(f"no element with the tag {tag:#x}")
    return first


def _split(data: bytes) -> Sequence[_Element]:
    return list(_elements(data))


def _elements(data: bytes) -> Iterator[_Element]:
    """The elements one after another (ITU-T X.690); ValueError where one ends too late."""
    place = 0
    while place < len(data):
        if len(data) < place + 2:
            raise ValueError("an element ends too early")
        tag, size, start = data[place], data[place + 1], place + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count], "big")
            start += count
        if start + size > len(data):
            raise ValueError("an element ends too early")
        yield _Element(tag, data[place : start + size], data[start : start + size])
        place = start + size
