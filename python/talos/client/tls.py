"""TLS as the API requires it, by OpenSSL: Ed25519 client keys must work."""

import ssl

from talos.client.target import Target
from talos.system.errors import UserError
from talos.system.secret_file import open_secret_file


def make_context(target: Target) -> ssl.SSLContext:
    """The context for a target's endpoints: TLS 1.3, which every node has, upstream's too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    where = f'context "{target.context}"'
    if target.ca:
        try:
            context.load_verify_locations(cadata=target.ca.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise UserError("its `ca` holds no certificate in PEM", where=where) from error
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if target.crt:
        _load_client_certificate(context, target, where)
    return context


def _load_client_certificate(context: ssl.SSLContext, target: Target, where: str) -> None:
    # OpenSSL has no such block type as upstream's; the body is plain PKCS #8.
    key = target.key.replace(b"ED25519 PRIVATE KEY", b"PRIVATE KEY")
    try:
        with open_secret_file(target.crt) as crt_path, open_secret_file(key) as key_path:
            context.load_cert_chain(crt_path, key_path, password="")
    except (ssl.SSLError, ValueError) as error:
        text = str(error)
        reason = (
            "its `crt` and `key` do not belong together"
            if "MISMATCH" in text
            else "its `crt` or `key` is no valid PEM"
        )
        raise UserError(
            reason, where=where, hint="make new credentials with `talosctl config new`"
        ) from error


def fingerprint(certificate: bytes) -> str:
    """base64(SHA-256) of a DER certificate's public key, as consoles show it."""
    from cryptography import x509

    from talos.pki.certificate import spki_fingerprint

    return spki_fingerprint(x509.load_der_x509_certificate(certificate))
