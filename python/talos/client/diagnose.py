"""Why a node may hang up right after the TLS handshake.

In TLS 1.3 a server checks the client's certificate when the client's part of the handshake is over. Not every
server sends the reason before it closes; what is wrong with the own certificate is found here.
"""

import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from talos.client.refusal import RENEW
from talos.client.target import Target

type Diagnosis = tuple[str, str]
"""What is wrong, and what to do."""

NO_CERTIFICATE: Diagnosis = (
    "the node wants a client certificate and got none",
    "it has its configuration already: leave out --insecure and use the cluster's talosconfig",
)
FOREIGN: Diagnosis = (
    "the node does not trust this client certificate's issuer",
    "the talosconfig belongs to another cluster, or its CA was rotated",
)
EXPIRED: Diagnosis = (
    "the client certificate has expired",
    RENEW,
)
NOT_YET_VALID: Diagnosis = (
    "the client certificate is not valid yet",
    "compare this machine's clock with the one that issued it",
)
WRONG_USAGE: Diagnosis = (
    "the client certificate is not for client authentication, or not only",
    "use one made by `talosctl gen` or `talosctl config new`",
)
UNKNOWN: Diagnosis = (
    "the node closed the connection after the TLS handshake",
    "it may refuse the client certificate, see `talosctl config info`, or its apid is restarting",
)


def diagnose(target: Target, now: datetime.datetime | None = None) -> Diagnosis:
    """The first thing wrong with a target's client certificate."""
    if not target.crt:
        return NO_CERTIFICATE
    moment = now or datetime.datetime.now(datetime.UTC)
    try:
        certificate = x509.load_pem_x509_certificate(target.crt)
        authorities = x509.load_pem_x509_certificates(target.ca) if target.ca else []
    except ValueError:
        return UNKNOWN
    if certificate.not_valid_after_utc < moment:
        return EXPIRED
    if certificate.not_valid_before_utc > moment:
        return NOT_YET_VALID
    if authorities and not any(_is_issued_by(certificate, authority) for authority in authorities):
        return FOREIGN
    return UNKNOWN if _is_for_clients(certificate) else WRONG_USAGE


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False
    # Nodes take nothing else beside it (as upstream).
    return list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
