"""An authority of timestamps: responses of RFC 3161 in DER, with whatever may be wrong about them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.harness.sigstore import (
    NOW,
    Authority,
    Identity,
    encode,
    make_authority,
    make_key,
    make_usage,
    sign,
)

_POLICY = "1.3.6.1.4.1.57264.2"
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE, _MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
_ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2"
_HASHES = {
    "sha1": "1.3.14.3.2.26",
    "sha256": "2.16.840.1.101.3.4.2.1",
    "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
}
_INTEGER, _OCTETS, _OID, _SEQUENCE, _SET, _GENERALIZED_TIME = 0x02, 0x04, 0x06, 0x30, 0x31, 0x18
_CONTEXT_0 = 0xA0


def make_signer(
    authority: Authority,
    *,
    purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.TIME_STAMPING,),
    critical: bool = True,
    life: timedelta = timedelta(days=300),
    is_authority: bool = False,
) -> Identity:
    """What signs timestamps for an authority, from ``life`` before now until as long after it."""
    key = make_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "timestamps")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - life)
        .not_valid_after(NOW + life)
        .add_extension(make_usage(sign_certificates=False), critical=True)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=critical)
        .sign(authority.key, SHA256())
    )
    return Identity(key=key, certificate=certificate)


@dataclass(frozen=True, kw_only=True)
class TimestampAuthority:
    """An authority, and its signer, whose certificate is in responses or in the trusted root."""

    root: Authority = field(default_factory=lambda: make_authority("authority of timestamps"))
    between: Authority | None = None
    signer: Identity = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signer", make_signer(self.between or self.root))

    def trusted(self, *, signer: bool = True) -> dict[str, Any]:
        """Its part of a trusted root; with its signer's certificate, or without."""
        authorities = [one.certificate for one in (self.between, self.root) if one]
        chain = [*([self.signer.certificate] if signer else []), *authorities]
        certificates = [{"rawBytes": encode(one.public_bytes(Encoding.DER))} for one in chain]
        start = (NOW - timedelta(days=300)).isoformat().replace("+00:00", "Z")
        return {"certChain": {"certificates": certificates}, "validFor": {"start": start}}

    def stamp(
        self,
        signature: bytes,
        at: datetime = NOW,
        *,
        algorithm: str = "sha256",
        status: int = 0,
        has_certificate: bool = False,
        others: Sequence[x509.Certificate] = (),
        has_reference: bool = True,
        signer: Identity | None = None,
        text: str = "",
    ) -> bytes:
        """A response; ``text`` takes the place of the time, ``has_reference`` is the signer's hash in it.

        With the certificate of the signer come ``others``.
        """
        signer = signer or self.signer
        info = _make_info(signature, algorithm, text or f"{at:%Y%m%d%H%M%S}Z")
        attributes = {
            _CONTENT_TYPE: _oid(_INFO),
            _MESSAGE_DIGEST: _der(_OCTETS, hashlib.sha256(info).digest()),
        }
        certificate = signer.certificate.public_bytes(Encoding.DER)
        more = [one.public_bytes(Encoding.DER) for one in others]
        if has_reference:
            reference = _der(_OCTETS, hashlib.sha256(certificate).digest())
            attributes[_SIGNING_CERTIFICATE] = _sequence(_sequence(_sequence(reference)))
        data = _sequence(
            _integer(3),
            _der(_SET, _algorithm("sha256")),
            _sequence(_oid(_INFO), _der(_CONTEXT_0, _der(_OCTETS, info))),
            _der(_CONTEXT_0, certificate, *more) if has_certificate else b"",
            _der(_SET, _make_signer_info(signer, attributes)),
        )
        token = _sequence(_oid(_SIGNED_DATA), _der(_CONTEXT_0, data))
        return _sequence(_sequence(_integer(status)), token if status < 2 else b"")


def _make_info(signature: bytes, algorithm: str, time: str) -> bytes:
    imprint = _sequence(_algorithm(algorithm), _der(_OCTETS, hashlib.new(algorithm, signature).digest()))
    return _sequence(_integer(1), _oid(_POLICY), imprint, _integer(7), _der(_GENERALIZED_TIME, time.encode()))


def _make_signer_info(signer: Identity, attributes: Mapping[str, bytes]) -> bytes:
    parts = sorted(_sequence(_oid(kind), _der(_SET, value)) for kind, value in attributes.items())
    signature = sign(signer.key, _der(_SET, *parts))
    certificate = signer.certificate
    return _sequence(
        _integer(1),
        _sequence(certificate.issuer.public_bytes(), _integer(certificate.serial_number)),
        _algorithm("sha256"),
        _der(_CONTEXT_0, *parts),
        _sequence(_oid(_ECDSA_WITH_SHA256)),
        _der(_OCTETS, signature),
    )


def _der(tag: int, *parts: bytes) -> bytes:
    data = b"".join(parts)
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8)
    return bytes([tag, len(data)] if len(data) < 0x80 else [tag, 0x80 | len(size), *size]) + data


def _sequence(*parts: bytes) -> bytes:
    return _der(_SEQUENCE, *parts)


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def _algorithm(name: str) -> bytes:
    return _sequence(_oid(_HASHES[name]))


def _oid(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    data = bytearray()
    for number in (first * 40 + second, *others):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        data += bytes(reversed(groups))
    return _der(_OID, bytes(data))
