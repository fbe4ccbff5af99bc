"""TLS towards registries, as the machine config has it for each host; and why a connection failed."""

import ssl
from http.client import HTTPException

from talos.api.definitions.cri_pb2 import RegistryTLSConfig
from talos.system.errors import UserError
from talos.system.secret_file import open_secret_file

_MAX_REASON = 200
"""Characters."""


def make_context(settings: RegistryTLSConfig | None, host: str) -> ssl.SSLContext:
    """The context for one host; UserError when its certificates can't be used."""
    context = ssl.create_default_context()
    if settings is None:
        return context
    where = f"TLS settings of registry {host}"
    if settings.tlsca:
        try:
            context.load_verify_locations(cadata=settings.tlsca.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise UserError("ca holds no certificates in PEM", where=where) from None
    identity = settings.tls_client_identity
    if identity.crt or identity.key:
        _load_identity(context, identity.crt + b"\n" + identity.key, where)
    if settings.tls_insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_identity(context: ssl.SSLContext, pem: bytes, where: str) -> None:
    with open_secret_file(pem) as path:
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, OSError, ValueError):
            raise UserError("clientIdentity is no certificate with its key in PEM", where=where) from None


def explain(error: object) -> str:
    """Why a connection failed, on one line."""
    match error:
        case ssl.SSLCertVerificationError():
            text = f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLError():
            text = f"TLS failed: {error.reason or 'the connection ended'}"
        case TimeoutError():
            text = "it did not answer in time"
        case OSError() if error.strerror:
            text = error.strerror.lower()
        case HTTPException():
            text = f"it does not speak HTTP: {type(error).__name__}"
        case _:
            text = str(error) or type(error).__name__
    return " ".join(text.split())[:_MAX_REASON]
