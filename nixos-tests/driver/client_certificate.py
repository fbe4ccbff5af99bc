"""TLS of a test's own clients: a certificate by one of the authorities of a cluster's secrets."""

import base64
import datetime
import ssl
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = datetime.timedelta(hours=1)
"""An emulated machine's clock may be behind."""
VALIDITY = datetime.timedelta(days=1)


def make_context(secrets: Path, folder: Path, authority: str, *, organization: str = "") -> ssl.SSLContext:
    """TLS to servers of an ``authority`` (``etcd``, ``k8s``), with a client's certificate of it.

    ``secrets`` is the file of `talosctl gen secrets`; the certificate and its key are kept in ``folder``.
    """
    found = yaml.safe_load(secrets.read_text())["certs"][authority]
    certificate, key = (base64.b64decode(found[name]) for name in ("crt", "key"))
    pair = folder / f"{authority}-client.pem"
    pair.touch(mode=0o600)
    pair.write_bytes(_make_client(certificate, key, organization))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # servers are reached under another address than their own
    context.load_verify_locations(cadata=certificate.decode())
    context.load_cert_chain(pair)
    return context


def _make_client(certificate: bytes, key: bytes, organization: str) -> bytes:
    issuer = x509.load_pem_x509_certificate(certificate)
    signer = serialization.load_pem_private_key(key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "the authority has another kind of key"
    own = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "talos")]
    if organization:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(issuer.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
