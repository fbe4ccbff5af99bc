"""Certificates in DER or PEM, refused when any part of them can't be read."""

import warnings

from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from OpenSSL import crypto

from talos.system.errors import UserError

_BROKEN = (
    ValueError,
    CryptographyDeprecationWarning,
    crypto.Error,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def parse_certificate(data: bytes, where: str) -> x509.Certificate:
    """A certificate; UserError."""
    is_pem = data.lstrip().startswith(b"-----BEGIN")
    try:
        with warnings.catch_warnings():
            # What cryptography only warns of is not right either, such as a negative serial number.
            warnings.simplefilter("error")
            found = x509.load_pem_x509_certificate(data) if is_pem else x509.load_der_x509_certificate(data)
            list(found.extensions)
            # OpenSSL reads all of it; cryptography leaves parts as they are.
            crypto.X509.from_cryptography(found)
    except _BROKEN:
        raise UserError("its certificate is damaged", where=where) from None
    return found
