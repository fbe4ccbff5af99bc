"""A client of etcd's members on machines, by their JSON gateway: keys that a test writes and reads.

The gateway (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/) needs nothing but HTTP and TLS.
"""

import base64
import datetime
import json
import ssl
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HTTP_PORT = 2383
"""Where members serve health, metrics and the gateway."""
CLOCK_SKEW = datetime.timedelta(hours=1)
"""An emulated machine's clock may be behind."""
VALIDITY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The header of an answer."""

    cluster_id: int
    revision: int


class Member:
    """One member, behind a port on loopback; a failure is an AssertionError."""

    def __init__(self, port: int, context: ssl.SSLContext, timeout: float) -> None:
        """``timeout`` is that of one call, in seconds."""
        self._connection = HTTPSConnection("127.0.0.1", port, timeout=timeout, context=context)

    def put(self, key: str, value: str) -> Answer:
        """Write a key; it is acknowledged by the quorum."""
        return _read_header(self._call("put", {"key": _encode(key), "value": _encode(value)}))

    def read(self, key: str) -> tuple[str, Answer]:
        """Read a key through the quorum; empty when there is none."""
        found = self._call("range", {"key": _encode(key)})
        values = [base64.b64decode(pair.get("value", "")).decode() for pair in found.get("kvs", [])]
        return values[0] if values else "", _read_header(found)

    def _call(self, method: str, request: dict[str, str]) -> dict[str, Any]:
        try:
            self._connection.request("POST", f"/v3/kv/{method}", json.dumps(request))
            response = self._connection.getresponse()
            text = response.read()
            assert response.status == 200, f"etcd {method}: {response.status} {text.decode(errors='replace')}"
            return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise AssertionError(f"etcd {method}: {error!r}") from None

    def close(self) -> None:
        """Hang up; the next call connects anew."""
        with suppress(OSError):
            self._connection.close()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _read_header(answer: dict[str, Any]) -> Answer:
    header = answer["header"]
    return Answer(cluster_id=int(header["cluster_id"]), revision=int(header["revision"]))


def make_context(secrets: Path, folder: Path) -> ssl.SSLContext:
    """TLS with a client's certificate, made of the cluster's secrets (``talosctl gen secrets``)."""
    authority = yaml.safe_load(secrets.read_text())["certs"]["etcd"]
    certificate, key = (base64.b64decode(authority[name]) for name in ("crt", "key"))
    own = _make_client(certificate, key)
    pair = folder / "etcd-client.pem"
    pair.touch(mode=0o600)
    pair.write_bytes(own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it is reached under another address than its own
    context.load_verify_locations(cadata=certificate.decode())
    context.load_cert_chain(pair)
    return context


def _make_client(certificate: bytes, key: bytes) -> bytes:
    issuer = x509.load_pem_x509_certificate(certificate)
    signer = serialization.load_pem_private_key(key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "etcd's CA has another kind of key"
    own = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "talos")]))
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
