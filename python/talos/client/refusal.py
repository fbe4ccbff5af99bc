"""Why a connection could not be made, with a remedy."""

import os
import socket
import ssl

from talos.client.endpoint import Endpoint

UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, _SELF_SIGNED..., _UNABLE_TO_VERIFY_LEAF (x509_vfy.h)."""
WRONG_NAME = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH (x509_vfy.h)."""
NOT_YET_VALID, EXPIRED, BAD_SIGNATURE = 9, 10, 7

RENEW = (
    "have a new one issued with `talosctl login` or `talosctl config new`, or make one from the cluster's "
    "secrets: talosctl gen config -t talosconfig --with-secrets"
)
_ALERTS = {
    "CERTIFICATE_REQUIRED": (
        "the node wants a client certificate and got none",
        "it has its configuration already: leave out --insecure and use the cluster's talosconfig",
    ),
    "UNKNOWN_CA": (
        "the node does not trust this client certificate's issuer",
        "the talosconfig belongs to another cluster, or its CA was rotated",
    ),
    "DECRYPT_ERROR": (
        "the node does not trust this client certificate's issuer",
        "the talosconfig belongs to another cluster of the same name, or its CA was rotated",
    ),
    "CERTIFICATE_EXPIRED": (
        "the client certificate has expired",
        RENEW,
    ),
    "BAD_CERTIFICATE": (
        "the node refuses this client certificate",
        "it must be issued by the cluster's OS CA for client authentication and be valid today",
    ),
    "UNSUPPORTED_CERTIFICATE": (
        "the node refuses this client certificate",
        "it must be issued for client authentication only",
    ),
    "HANDSHAKE_FAILURE": ("the node refuses the TLS handshake", "it may demand a client certificate"),
    "WRONG_VERSION_NUMBER": ("it does not speak TLS", "is this the port of the Talos API (50000)?"),
    "UNEXPECTED_EOF": ("it closed the connection during the TLS handshake", "is the node's apid running?"),
    "NO_APPLICATION_PROTOCOL": ("it does not speak HTTP/2", "is this the port of the Talos API (50000)?"),
}
_OF_CERTIFICATE = frozenset(_ALERTS) - {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "NO_APPLICATION_PROTOCOL"}

_FAILURES: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    (
        (ConnectionRefusedError,),
        "connection refused",
        "the node is down, starting, or this is not its address",
    ),
    ((TimeoutError,), "no answer in time", "the node is down, or a firewall drops the packets"),
    (
        (ConnectionResetError, BrokenPipeError, EOFError),
        "the connection was closed",
        "is the node's apid running?",
    ),
)


class ConnectError(Exception):
    """A connection that was not made, or broke before an answer.

    ``is_refusal`` is whether the node does not accept the client's certificate.
    """

    def __init__(self, endpoint: Endpoint, message: str, hint: str = "", *, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.endpoint = endpoint
        self.message = message
        self.hint = hint
        self.is_refusal = is_refusal

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def explain(endpoint: Endpoint, error: BaseException) -> ConnectError:
    """What an exception of the transport means."""
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(endpoint, error)
    if isinstance(error, ssl.SSLError):
        return _explain_tls(endpoint, error)
    if isinstance(error, socket.gaierror):
        return ConnectError(
            endpoint, f'the name "{endpoint.host}" does not resolve', "check its spelling and DNS"
        )
    if isinstance(error, TimeoutError) and _is_name(endpoint.host):
        hint = "the node is down, a firewall drops the packets, or no name server answers"
        return ConnectError(endpoint, "no answer in time", hint)
    for kinds, message, hint in _FAILURES:
        if isinstance(error, kinds):
            return ConnectError(endpoint, message, hint)
    if isinstance(error, OSError) and error.errno:
        # asyncio puts a text of its own, with the address again, into strerror.
        return ConnectError(endpoint, os.strerror(error.errno).lower())
    if isinstance(error, OSError) and error.strerror:
        return ConnectError(endpoint, error.strerror)
    return ConnectError(endpoint, str(error) or type(error).__name__)


def _is_name(host: str) -> bool:
    return ":" not in host and any(map(str.isalpha, host))


def _explain_tls(endpoint: Endpoint, error: ssl.SSLError) -> ConnectError:
    text = f"{error.reason or ''} {error}".upper().replace(" ", "_")
    for name, (message, hint) in _ALERTS.items():
        if name in text:
            return ConnectError(endpoint, message, hint, is_refusal=name in _OF_CERTIFICATE)
    return ConnectError(endpoint, f"TLS failed: {error.reason or error}")


def _explain_certificate(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> ConnectError:
    code = error.verify_code
    if code in UNKNOWN_ISSUER or code == BAD_SIGNATURE:
        return ConnectError(
            endpoint,
            "the node's certificate is not signed by the CA of the talosconfig",
            "a node in maintenance mode needs --insecure; else the talosconfig is another cluster's, "
            "see `talosctl config info`",
        )
    if code in WRONG_NAME:
        return ConnectError(
            endpoint,
            f"the node's certificate is not valid for {endpoint.host}",
            "use one of the node's own addresses as endpoint, or add this one to machine.certSANs",
        )
    if code == EXPIRED:
        return ConnectError(
            endpoint, "the node's certificate has expired", "compare the node's clock with this machine's"
        )
    if code == NOT_YET_VALID:
        return ConnectError(
            endpoint,
            "the node's certificate is not valid yet",
            "compare the node's clock with this machine's",
        )
    return ConnectError(endpoint, f"the node's certificate is refused: {error.verify_message}")
