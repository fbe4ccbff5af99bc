"""The root of trust of keyless signatures: authorities of certificates and of timestamps, transparency logs.

Each is for a time.

https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.parts import bytes_of, object_of, objects_of
from talos.machined.containerd.verify.signed import verify
from talos.pki.keys import PublicKey
from talos.system.errors import UserError
from talos.system.urls import find_host

_TYPE = "application/vnd.dev.sigstore.trustedroot"
"""How its media type begins, before the version."""
_LARGE_CURVES: Mapping[int, HashAlgorithm] = {384: SHA384(), 521: SHA512()}
"""Bits of a key to what its signatures hash with; all others take SHA-256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A time with no end, or with one."""

    start: datetime
    end: datetime | None = None

    def __contains__(self, time: datetime) -> bool:
        return self.start <= time and (self.end is None or time <= self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An authority's certificates, its root the last.

    The first of an authority of timestamps may be that of its signer.
    """

    chain: tuple[x509.Certificate, ...]
    period: Period


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The key of a transparency log, and the host that it is at, where that is known."""

    id: bytes
    key: PublicKey
    period: Period
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedRoot:
    """Logs by their ids: of signatures, and of certificates."""

    authorities: tuple[Authority, ...]
    timestamp_authorities: tuple[Authority, ...]
    signature_logs: Mapping[bytes, Log]
    certificate_logs: Mapping[bytes, Log]


@lru_cache(maxsize=1)
def parse_trusted_root(text: str) -> TrustedRoot:
    """A trusted root in JSON, which all signatures of an image have in common; UserError."""
    where = "trusted root"
    document = parse_document(text.encode(), where)
    if not str(document.get("mediaType")).startswith(_TYPE):
        raise UserError("it is no trusted root of Sigstore", where=where)
    return TrustedRoot(
        authorities=_make_authorities(document, "certificateAuthorities", where),
        timestamp_authorities=_make_authorities(document, "timestampAuthorities", where),
        signature_logs=_make_logs(document, "tlogs", where),
        certificate_logs=_make_logs(document, "ctlogs", where),
    )


def _make_authorities(document: Mapping[str, Any], kind: str, where: str) -> tuple[Authority, ...]:
    return tuple(_make_authority(one, where) for one in objects_of(document, kind))


def _make_authority(part: Mapping[str, Any], where: str) -> Authority:
    data = [
        bytes_of(one, "rawBytes", where) for one in objects_of(object_of(part, "certChain"), "certificates")
    ]
    chain = tuple(parse_certificate(one, f"{where}, an authority") for one in data)
    if not chain:
        raise UserError("an authority without certificates", where=where)
    return Authority(chain=chain, period=_make_period(object_of(part, "validFor"), where))


def _make_logs(document: Mapping[str, Any], kind: str, where: str) -> Mapping[bytes, Log]:
    """Logs by their ids; those with keys of a kind that came later are left out."""
    found: dict[bytes, Log] = {}
    for part in objects_of(document, kind):
        public = object_of(part, "publicKey")
        try:
            key = serialization.load_der_public_key(bytes_of(public, "rawBytes", where))
        except (ValueError, UnsupportedAlgorithm):
            continue
        if isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
            period = _make_period(object_of(public, "validFor"), where)
            log_id = bytes_of(object_of(part, "logId"), "keyId", where)
            found[log_id] = Log(id=log_id, key=key, period=period, host=find_host(str(part.get("baseUrl"))))
    return found


def _make_period(part: Mapping[str, Any], where: str) -> Period:
    start, end = (_make_time(part.get(key), where) for key in ("start", "end"))
    if start is None:
        raise UserError("a key without the start of its time", where=where)
    return Period(start=start, end=end)


def _make_time(value: object, where: str) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UserError(f"{str(value)[:40]!r} is no time", where=where)
    return time


def check_signature(log: Log, signature: bytes, data: bytes, text: str, where: str) -> None:
    """Whether a log has signed something; UserError with the text."""
    bits = log.key.key_size if isinstance(log.key, ec.EllipticCurvePublicKey) else 0
    try:
        verify(log.key, signature, data, _LARGE_CURVES.get(bits, SHA256()))
    except InvalidSignature:
        raise UserError(text, where=where) from None
