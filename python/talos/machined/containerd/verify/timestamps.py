"""Signed timestamps of a signature, by authorities of the trusted root.

RFC 3161, https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.parts import bytes_of, object_of, objects_of
from talos.machined.containerd.verify.signed import Signed
from talos.machined.containerd.verify.trusted_root import Authority, TrustedRoot
from talos.system.errors import UserError
from talos.system.timestamp import TimestampError, verify_timestamp

MAX_TIMESTAMPS = 32
"""Of a signature: cosign's own bound."""
MAX_TIMESTAMP = 64 * 1024
"""Bytes; one with its authority's certificates has up to about 6 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamps:
    """The times of those that count, and why the others don't."""

    times: Sequence[datetime] = ()
    reasons: Sequence[str] = ()


def find_timestamps(signed: Signed, root: TrustedRoot, where: str) -> Timestamps:
    """The timestamps in a bundle; those of authorities that are not trusted do no harm. UserError."""
    parts = objects_of(object_of(signed.material, "timestampVerificationData"), "rfc3161Timestamps")
    if len(parts) > MAX_TIMESTAMPS:
        raise UserError(f"a bundle with {len(parts)} timestamps", where=where)
    responses = [bytes_of(part, "signedTimestamp", where) for part in parts]
    if len(set(responses)) < len(responses):
        raise UserError("a bundle with the same timestamp twice", where=where)
    times: list[datetime] = []
    reasons: dict[str, None] = {}
    for response in responses:
        try:
            times.append(_find_time(response, signed.signature, root))
        except TimestampError as error:
            reasons[str(error)] = None
    return Timestamps(times=times, reasons=list(reasons))


def _find_time(response: bytes, signature: bytes, root: TrustedRoot) -> datetime:
    """When the signature was there, by the first authority that has signed it; TimestampError."""
    if len(response) > MAX_TIMESTAMP:
        raise TimestampError(f"it has {len(response)} bytes")
    reasons: dict[str, None] = {}
    for authority in root.timestamp_authorities:
        try:
            return _verify(response, signature, authority)
        except TimestampError as error:
            reasons[str(error)] = None
    raise TimestampError("; ".join(reasons) or "the trusted root has no authority for it")


def _verify(response: bytes, signature: bytes, authority: Authority) -> datetime:
    *others, anchor = (one.public_bytes(Encoding.DER) for one in authority.chain)
    found = verify_timestamp(response, anchor, others)
    if found.time not in authority.period:
        raise TimestampError("its authority was not trusted at that time")
    _check_signer(parse_certificate(found.signer, "timestamp"), authority.chain)
    if hashlib.new(found.algorithm, signature).digest() != found.digest:
        raise TimestampError("it is of another signature")
    return found.time


def _check_signer(signer: x509.Certificate, chain: Sequence[x509.Certificate]) -> None:
    """Whether a chain has the signer as its first, or none and has issued it; TimestampError."""
    own, authorities = (chain[:0], chain) if _is_authority(chain[0]) else (chain[:1], chain[1:])
    if _is_authority(signer) or any(one != signer for one in own):
        raise TimestampError("it is by another signer than the trusted root has")
    try:
        signer.verify_directly_issued_by(authorities[0])
    except (IndexError, ValueError, TypeError, InvalidSignature):
        raise TimestampError("its signer is not of the authority") from None
    if not all(_may_issue(one) for one in authorities[:-1]):
        raise TimestampError("an authority above its signer is not for timestamps")


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _may_issue(authority: x509.Certificate) -> bool:
    """Whether it may issue for timestamps: OpenSSL holds that over the signer alone."""
    try:
        purposes = authority.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    wanted = ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
    return any(one in purposes for one in wanted)
