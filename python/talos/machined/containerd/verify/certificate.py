"""Certificates of keyless signatures: issued by a trusted authority, logged, and to whom.

https://github.com/sigstore/fulcio/blob/main/docs/certificate-specification.md, RFC 6962 section 3.2
"""

import calendar
import hashlib
import re
import struct
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import certificate_transparency as ct
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import crypto

from talos.machined.containerd.verify.request import Request
from talos.machined.containerd.verify.trusted_root import Authority, TrustedRoot, check_signature
from talos.system.errors import UserError

ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
OLD_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
"""Extensions with the issuer of the token that a certificate was given for: as a text of ASN.1, and plain."""
OTHER_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
"""The type of names that are neither mail addresses nor URIs."""
_UTF8_STRING = 0x0C
_CERTIFICATE_TIMESTAMP = 0
"""RFC 6962, SignatureType."""


def check_certificate(certificate: x509.Certificate, root: TrustedRoot, time: datetime, where: str) -> None:
    """Whether a trusted authority had issued a certificate that could sign at that time; UserError."""
    issuer = _find_issuer(certificate, root, time, where)
    if time > certificate.not_valid_after_utc:  # by less than OpenSSL's whole seconds
        raise UserError(f"its certificate ended before {time:%Y-%m-%dT%H:%M:%S.%fZ}", where=where)
    extensions = certificate.extensions
    try:
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        raise UserError("its certificate does not name what it is for", where=where) from None
    if not usage.digital_signature or ExtendedKeyUsageOID.CODE_SIGNING not in purposes:
        raise UserError("its certificate is for something else than to sign code", where=where)
    _check_timestamp(certificate, issuer, root, where)


def _find_issuer(
    certificate: x509.Certificate, root: TrustedRoot, time: datetime, where: str
) -> x509.Certificate:
    reasons: dict[str, None] = {}
    for authority in root.authorities:
        if time in authority.period:
            try:
                return _verify_chain(certificate, authority, time)
            except crypto.X509StoreContextError as error:
                reasons[str(error)] = None
    text = "; ".join(reasons) or "there is no authority for that time"
    raise UserError(f"its certificate is not accepted for {time:%Y-%m-%dT%H:%M:%SZ}: {text}", where=where)


def _verify_chain(certificate: x509.Certificate, authority: Authority, time: datetime) -> x509.Certificate:
    """The certificate of the issuer; X509StoreContextError."""
    *between, anchor = (crypto.X509.from_cryptography(one) for one in authority.chain)
    store = crypto.X509Store()
    store.add_cert(anchor)
    # The anchor may itself be issued by one that is not trusted.
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(time.astimezone(UTC).replace(tzinfo=None))
    leaf = crypto.X509.from_cryptography(certificate)
    chain = crypto.X509StoreContext(store, leaf, chain=between).get_verified_chain()
    if len(chain) == 1:
        raise crypto.X509StoreContextError("it is an authority's own", [], leaf)
    return chain[1].to_cryptography()


def _check_timestamp(
    certificate: x509.Certificate, issuer: x509.Certificate, root: TrustedRoot, where: str
) -> None:
    """Whether a trusted log of certificates has promised to show this one; UserError."""
    try:
        promises = certificate.extensions.get_extension_for_class(
            x509.PrecertificateSignedCertificateTimestamps
        )
    except x509.ExtensionNotFound:
        raise UserError("its certificate is in no log of certificates", where=where) from None
    reason = "its certificate has no timestamp"
    for promise in promises.value:
        log = root.certificate_logs.get(promise.log_id)
        if log is None or promise.timestamp.replace(tzinfo=UTC) not in log.period:
            reason = "the log of its certificate is not trusted"
            continue
        if not isinstance(promise.signature_hash_algorithm, SHA256):
            reason = "the timestamp of its certificate is not of SHA-256"
            continue
        signed = encode_promise(promise.timestamp, promise.extension_bytes, certificate, issuer)
        check_signature(log, promise.signature, signed, "the timestamp of its certificate is forged", where)
        return
    raise UserError(reason, where=where)


def encode_promise(
    timestamp: datetime, extensions: bytes, certificate: x509.Certificate, issuer: x509.Certificate
) -> bytes:
    """What a log of certificates signs, of a certificate that is not issued yet; the timestamp is in UTC."""
    milliseconds = calendar.timegm(timestamp.timetuple()) * 1000 + timestamp.microsecond // 1000
    head = struct.pack(
        ">BBQH",
        ct.Version.v1.value,
        _CERTIFICATE_TIMESTAMP,
        milliseconds,
        ct.LogEntryType.PRE_CERTIFICATE.value,
    )
    public = issuer.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    body = certificate.tbs_precertificate_bytes
    length = struct.pack(">I", len(body))[1:]
    return b"".join(
        (head, hashlib.sha256(public).digest(), length, body, struct.pack(">H", len(extensions)), extensions)
    )


def check_identity(certificate: x509.Certificate, wanted: Request, where: str) -> None:
    """Whether a certificate is for whom a rule names; UserError."""
    issuer = find_issuer(certificate)
    if not issuer or issuer != wanted.issuer:
        raise UserError(f"it is signed by an identity of {_quote(issuer or 'no issuer')}", where=where)
    if not wanted.subject and not wanted.subject_regex:
        raise UserError("names no subject", where="the rule")
    try:
        # As in Go, whose patterns these are: classes of characters are of ASCII.
        pattern = re.compile(wanted.subject_regex, re.ASCII)
    except re.error as error:
        raise UserError(f"subjectRegex is no pattern: {error}", where="the rule") from None
    names = find_names(certificate)
    for name in names:
        if wanted.subject in ("", name) and pattern.search(name):
            return
    raise UserError(f"it is signed by {', '.join(map(_quote, names[:3])) or 'no name'}", where=where)


def find_issuer(certificate: x509.Certificate) -> str | None:
    """The issuer of the token that a certificate was given for."""
    for number in (ISSUER, OLD_ISSUER):
        try:
            value = certificate.extensions.get_extension_for_oid(number).value
        except x509.ExtensionNotFound:
            continue
        if isinstance(value, x509.UnrecognizedExtension):
            return _parse_text(value.value) if number == ISSUER else _decode(value.value)
    return None


def find_names(certificate: x509.Certificate) -> list[str]:
    """The mail addresses, URIs and names of Sigstore's own type that a certificate is for.

    One with a line break, which ``$`` of a pattern may pass over, is none.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    own = (
        _parse_text(name.value)
        for name in names
        if isinstance(name, x509.OtherName) and name.type_id == OTHER_NAME
    )
    found = (
        *names.get_values_for_type(x509.RFC822Name),
        *names.get_values_for_type(x509.UniformResourceIdentifier),
        *own,
    )
    return [name for name in found if name and name.isprintable()]


def _parse_text(data: bytes) -> str | None:
    """A UTF8String of ASN.1 in DER, of at most 65535 bytes; None when it is none."""
    if len(data) < 2 or data[0] != _UTF8_STRING:
        return None
    count = data[1] & 0x7F if data[1] & 0x80 else 0
    if count > 2:
        return None
    length = int.from_bytes(data[2 : 2 + count]) if count else data[1]
    body = data[2 + count :]
    return _decode(body) if len(body) == length else None


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _quote(name: str) -> str:
    return repr(name[:200])
