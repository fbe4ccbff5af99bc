"""Certificates as PEM: a pair with its key, reading, fingerprints.

PemPair(crt, key)
parse_certificate(pem, where="machine.ca.crt") -> x509.Certificate
parse_certificates(pem) -> list[x509.Certificate]
certificate_to_pem(certificate) -> bytes
spki_fingerprint(certificate) -> str
has_key(certificate, key) -> bool
is_signed_by(certificate, issuers) -> bool
join_certificates(resource.accepted_c_as) -> bytes
has_names(certificate, dns_names, ips) -> bool
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from talos.api.common.common_pb2 import PEMEncodedCertificate
from talos.pki.keys import PrivateKey
from talos.system.errors import UserError

_CERTIFICATE_PEM = re.compile(
    # Possessive, so that a block without an end takes linear time.
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]++-----END CERTIFICATE-----",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PemPair:
    """A certificate and its private key, both PEM. The key is empty where only the certificate is known."""

    crt: bytes
    key: bytes = field(default=b"", repr=False)


def join_certificates(found: Iterable[PEMEncodedCertificate]) -> bytes:
    """What resources list one by one, as one PEM text."""
    return b"\n".join(one.crt for one in found)


def parse_certificate(pem: bytes, *, where: str = "certificate") -> x509.Certificate:
    """The first certificate of a PEM text.

    UserError: when there is none or it is damaged.
    """
    return parse_certificates(pem, where=where)[0]


def parse_certificates(pem: bytes, *, where: str = "certificate") -> list[x509.Certificate]:
    """Every certificate of a PEM text, at least one.

    UserError: when there is none or one is damaged.
    """
    blocks = _CERTIFICATE_PEM.findall(pem)
    if not blocks:
        raise UserError(
            "no certificate in PEM form",
            where=where,
            hint="expected a block that begins with -----BEGIN CERTIFICATE-----",
        )
    try:
        found = [x509.load_pem_x509_certificate(block) for block in blocks]
        # The library parses these on access.
        _ = [(certificate.subject, certificate.extensions) for certificate in found]
    except Exception as error:
        raise UserError(
            "the certificate is damaged", where=where, hint="copy the whole block, from BEGIN to END"
        ) from error
    return found


def certificate_to_pem(certificate: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def spki_fingerprint(certificate: x509.Certificate) -> str:
    """Base64 of the SHA-256 of the subject public key info, as ``--cert-fingerprint`` takes it."""
    spki = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(hashlib.sha256(spki).digest()).decode()


def has_key(certificate: x509.Certificate, key: PrivateKey) -> bool:
    """Whether a certificate is that of a key."""
    return certificate.public_key() == key.public_key()


def is_signed_by(certificate: x509.Certificate, issuers: Iterable[x509.Certificate]) -> bool:
    """Whether one of these authorities has signed a certificate."""
    for issuer in issuers:
        try:
            certificate.verify_directly_issued_by(issuer)
        except Exception:  # noqa: BLE001, S112 - any failure means: not the issuer
            continue
        return True
    return False


def has_names(certificate: x509.Certificate, dns_names: Iterable[str], ips: Iterable[object]) -> bool:
    """Whether a certificate is for exactly these names and addresses."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    found = {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
    return set(names.get_values_for_type(x509.DNSName)) == set(dns_names) and found == set(map(str, ips))
