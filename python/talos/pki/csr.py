"""Certificate signing requests.

make_csr(key, organizations=["os:admin"], ips=[...]) -> bytes (PEM)
parse_csr(pem, where="request.csr") -> x509.CertificateSigningRequest
"""

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from talos.pki.keys import PrivateKey
from talos.pki.names import make_alternative_names, make_subject, signature_hash
from talos.system.errors import UserError

_CSR_PEM = re.compile(
    rb"-----BEGIN (?P<type>NEW |)CERTIFICATE REQUEST-----\s"
    rb"[A-Za-z0-9+/=\s]++-----END (?P=type)CERTIFICATE REQUEST-----"
)

_MAX_PEM = 64 * 1024  # bytes of PEM; any holder of a worker's token may send one


def make_csr(
    key: PrivateKey,
    *,
    common_name: str = "",
    organizations: Sequence[str] = (),
    dns_names: Sequence[str] = (),
    ips: Sequence[ipaddress.IPv4Address | ipaddress.IPv6Address | str] = (),
) -> bytes:
    """A request for a certificate of this key and these names, PEM."""
    builder = x509.CertificateSigningRequestBuilder(make_subject(common_name, organizations))
    names = make_alternative_names(dns_names, ips)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, signature_hash(key)).public_bytes(serialization.Encoding.PEM)


def parse_csr(pem: bytes, *, where: str = "certificate request") -> x509.CertificateSigningRequest:
    """Read a request and check that it is signed with its own key.

    UserError: when it is no request, is damaged, or its signature is wrong.
    """
    if len(pem) > _MAX_PEM:
        raise UserError("too long for a certificate request", where=where, hint=f"at most {_MAX_PEM} bytes")
    found = _CSR_PEM.search(pem)
    if found is None:
        raise UserError(
            "no certificate request in PEM form",
            where=where,
            hint="expected a block that begins with -----BEGIN CERTIFICATE REQUEST-----",
        )
    try:
        request = x509.load_pem_x509_csr(found.group(0))
        valid = request.is_signature_valid
        # The library parses these on access.
        _ = request.subject, request.extensions, request.public_key()
    except Exception as error:
        raise UserError("the certificate request is damaged or of an unknown kind", where=where) from error
    if not valid:
        raise UserError(
            "the request's signature does not match its key", where=where, hint="make the request again"
        )
    return request
