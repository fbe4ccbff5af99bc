"""TLS of a port: its context, a client's identity by its certificate, why a handshake failed."""

import hashlib
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from talos.rpc.protocol import Peer
from talos.system.secret_file import open_secret_file


class RefusedError(Exception):
    """A connection that is not to be served; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a TLS server needs. All PEM.

    Without ``client_authorities`` no client certificate is requested.
    """

    certificate: bytes
    key: bytes
    client_authorities: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client of the port.

    ``key`` is what its share of the port is counted by. ``expires`` is the time, in seconds since
    1970, at which the first certificate of its chain expires; ``anchor`` the digest of the CA
    that vouches for it. Both are None without a certificate.
    """

    peer: Peer
    key: str
    expires: float | None = None
    anchor: bytes | None = None


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """A server's TLS context: TLS 1.3, HTTP/2, no sessions.

    OpenSSL keeps the sessions of TLS 1.2, with the client's certificate in each, for two hours. A resumed one
    skips the check of the client's certificate. In TLS 1.3 there is none without a ticket.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    context.num_tickets = 0
    load_certificate(context, settings.certificate, settings.key)
    if settings.client_authorities:
        context.verify_mode = ssl.CERT_REQUIRED
        # As Go does: an accepted CA is an anchor even when another CA has signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(
            cadata="\n".join(pem.decode("ascii") for pem in settings.client_authorities)
        )
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make a PEM certificate with its key the one that a context shows."""
    with open_secret_file(certificate + b"\n" + key) as path:
        context.load_cert_chain(path)


def check_client(tls: ssl.SSLObject, address: str) -> Client:
    """The identity of a TLS client, from its verified certificate.

    Every certificate of its chain that is no CA's must be for clients and nothing else.
    """
    chain = tls.get_verified_chain()
    if not chain:
        raise RefusedError("the chain of the client certificate was not verified")
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in chain]
        for certificate in certificates:
            _check_usage(certificate)
        subject = certificates[0].subject
    except RefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds for what is damaged
        raise RefusedError(f"the client certificate is malformed: {error}") from None
    peer = Peer(
        address=address,
        common_name=_first(subject, NameOID.COMMON_NAME),
        organizations=tuple(
            str(part.value)
            for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            if part.value
        ),
    )
    return Client(
        peer=peer,
        key=hashlib.sha256(chain[0]).hexdigest(),
        expires=min(certificate.not_valid_after_utc.timestamp() for certificate in certificates),
        anchor=hashlib.sha256(chain[-1]).digest(),
    )


def anchors_of(context: ssl.SSLContext) -> frozenset[bytes]:
    """The digests of the CAs that a context accepts, as in :class:`Client`."""
    return frozenset(hashlib.sha256(der).digest() for der in context.get_ca_certs(binary_form=True))


def _check_usage(certificate: x509.Certificate) -> None:
    try:
        if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return
    except x509.ExtensionNotFound:
        pass
    try:
        usages = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        usages = []
    if usages != [ExtendedKeyUsageOID.CLIENT_AUTH]:
        name = certificate.subject.rfc4514_string()
        raise RefusedError(
            f'the extended key usage of the client certificate "{name}" is not exactly clientAuth'
        )


def _first(subject: x509.Name, oid: x509.ObjectIdentifier) -> str:
    return next((str(part.value) for part in subject.get_attributes_for_oid(oid)), "")


_REASONS = {
    "HTTP_REQUEST": "plain HTTP on a TLS port",
    "HTTPS_PROXY_REQUEST": "a proxy request on a TLS port",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate",
    "WRONG_VERSION_NUMBER": "this is not TLS",
    "UNSUPPORTED_PROTOCOL": "the client's TLS is older than 1.3",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the CA of our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client takes our certificate for expired: compare the clocks",
    "NO_SHARED_CIPHER": "no cipher in common",
    "NO_APPLICATION_PROTOCOL": "the client does not offer HTTP/2 (ALPN h2)",
}


def describe(error: OSError) -> str | None:
    """Why a handshake failed, for the log; None when the client only closed the connection."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the client certificate is not accepted: {error.verify_message}"
        case ssl.SSLEOFError() | ConnectionResetError() | BrokenPipeError():
            return None
        case ssl.SSLError(reason=str(reason)):
            return _REASONS.get(reason, reason.lower().replace("_", " "))
        case ConnectionAbortedError() | TimeoutError():
            return "the handshake took too long"
        case _:
            return str(error)
