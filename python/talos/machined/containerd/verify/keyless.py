"""Who may have signed: an identity of an issuer, whose certificate and signature are in public logs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from talos.machined.containerd.verify.body import ExpectedEntry, check_body
from talos.machined.containerd.verify.certificate import check_certificate, check_identity
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.log import Entry, check_entry, parse_annotation, parse_entry
from talos.machined.containerd.verify.parts import bytes_of, object_of, objects_of, time_of
from talos.machined.containerd.verify.request import Request
from talos.machined.containerd.verify.signed import Signed, check_signature
from talos.machined.containerd.verify.timestamps import find_timestamps
from talos.machined.containerd.verify.trusted_root import TrustedRoot, parse_trusted_root
from talos.pki.keys import PublicKey
from talos.system.errors import UserError

MAX_ENTRIES = 32
"""Of a signature in logs: cosign's own bound."""


def verify_identity(signed: Signed, request: Request) -> None:
    """Whether a signature is by an identity that the request names; UserError."""
    where = request.where
    root = parse_trusted_root(request.trusted_root)
    if request.signature:
        data, parts = request.certificate.encode(), [parse_annotation(request.entry or "{}", where)]
    else:
        data, parts = _find_material(signed.material, where)
    certificate = parse_certificate(data, where)
    entries = _find_entries(parts, root, where)
    # A certificate is for ten minutes: only a time that another has signed shows that it was valid.
    for time in _find_times(signed, entries, root, where, needs_proof=not request.signature):
        check_certificate(certificate, root, time, where)
    check_identity(certificate, request, where)
    key = _find_key(certificate, where)
    check_signature(signed, key, "it is not signed by the key of its certificate", where)
    expected = ExpectedEntry(logged=signed.logged, signature=signed.signature, certificate=certificate)
    for entry in entries:
        check_body(entry.body, expected, where)


def _find_material(material: Mapping[str, Any], where: str) -> tuple[bytes, Sequence[Mapping[str, Any]]]:
    """The certificate and the entries in logs of a bundle; UserError."""
    if "certificate" not in material:
        raise UserError("it is signed with a key, without a certificate", where=where)
    entries = objects_of(material, "tlogEntries")
    if not 0 < len(entries) <= MAX_ENTRIES:
        raise UserError(f"a bundle with {len(entries)} entries of logs", where=where)
    return bytes_of(object_of(material, "certificate"), "rawBytes", where), entries


def _find_entries(parts: Sequence[Mapping[str, Any]], root: TrustedRoot, where: str) -> list[Entry]:
    """Those of trusted logs, one at least, as a signature may be in several logs; UserError."""
    entries = [parse_entry(part, where) for part in parts]
    if len({(entry.log_id, entry.index) for entry in entries}) < len(entries):
        raise UserError("a bundle with the same entry of a log twice", where=where)
    trusted = [entry for entry in entries if entry.log_id in root.signature_logs]
    if not trusted:
        raise UserError("the log of its signature is not trusted", where=where)
    return trusted


def _find_times(
    signed: Signed, entries: Sequence[Entry], root: TrustedRoot, where: str, *, needs_proof: bool
) -> set[datetime]:
    """When it was signed, by logs and authorities of timestamps; one at least has signed it. UserError.

    What a log names without a signature proves nothing, and has to fit all the same.
    """
    logs = [root.signature_logs[entry.log_id] for entry in entries]
    promised = [
        check_entry(entry, log, where, needs_proof=needs_proof)
        for entry, log in zip(entries, logs, strict=True)
    ]
    timestamps = find_timestamps(signed, root, where)
    if not timestamps.times and not any(promised):
        reason = "; ".join(timestamps.reasons) or "it has no timestamp, which takes the place of its log's"
        raise UserError(f"its time is not signed: {reason}", where=where)
    times = {*timestamps.times, *(time_of(entry.seconds, where) for entry in entries if entry.seconds)}
    if any(time not in log.period for time in times for log in logs):
        raise UserError("the key of its log was not trusted at that time", where=where)
    return times


def _find_key(certificate: x509.Certificate, where: str) -> PublicKey:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise UserError("its certificate has no ECDSA, Ed25519 or RSA key", where=where)
    return key
