"""A small Sigstore: an authority that certifies identities, a log of certificates, and one of signatures."""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ISSUER, SUBJECT = "https://accounts.example", "robot@example.org"
LIFE = timedelta(minutes=10)
"""Of a certificate of an identity."""
_TIMESTAMPS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_OLD_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_ORIGIN = "rekor.example - 1"


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(public_bytes(key)).digest()


def sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def to_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True, kw_only=True)
class Authority:
    """An authority below another, or one of its own."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def make_authority(
    name: str, above: Authority | None = None, purposes: Sequence[x509.ObjectIdentifier] = ()
) -> Authority:
    key = make_key()
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(above.certificate.subject if above else own)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=400))
        .not_valid_after(NOW + timedelta(days=400))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(make_usage(sign_certificates=True), critical=True)
    )
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return Authority(key=key, certificate=builder.sign(above.key if above else key, SHA256()))


def make_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A key with the certificate of it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


@dataclass(frozen=True)
class Sigstore:
    """Its keys, and the leaves of the log of signatures."""

    root: Authority = field(default_factory=lambda: make_authority("root"))
    certificate_log: ec.EllipticCurvePrivateKey = field(default_factory=make_key)
    log: ec.EllipticCurvePrivateKey = field(default_factory=make_key)
    leaves: list[bytes] = field(default_factory=lambda: [b"first", b"second", b"third"])
    between: Authority = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "between", make_authority("between", self.root))

    def trusted_root(self) -> dict[str, Any]:
        valid = {"start": (NOW - timedelta(days=300)).isoformat().replace("+00:00", "Z")}
        chain = [self.between.certificate, self.root.certificate]
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_make_log(self.log, valid)],
            "ctlogs": [_make_log(self.certificate_log, valid)],
            "certificateAuthorities": [
                {
                    "certChain": {
                        "certificates": [
                            {"rawBytes": encode(one.public_bytes(Encoding.DER))} for one in chain
                        ]
                    },
                    "validFor": valid,
                }
            ],
        }

    def certify(
        self,
        name: x509.GeneralName | str = SUBJECT,
        *,
        issuer: str = ISSUER,
        at: datetime = NOW,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        logged: bool = True,
        old: bool = False,
    ) -> Identity:
        """A key that may sign for ten minutes; ``old``: the issuer is in the older extension."""
        key = make_key()
        subject = x509.RFC822Name(name) if isinstance(name, str) else name
        text = issuer.encode()
        extension = x509.UnrecognizedExtension(
            _OLD_ISSUER if old else _ISSUER, text if old else bytes([0x0C, len(text)]) + text
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.between.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(at)
            .not_valid_after(at + LIFE)
            .add_extension(make_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName([subject]), critical=True)
            .add_extension(extension, critical=False)
        )
        if logged:
            body = builder.sign(self.between.key, SHA256()).tbs_certificate_bytes
            promise = x509.UnrecognizedExtension(_TIMESTAMPS, self._promise_certificate(body, at))
            builder = builder.add_extension(promise, critical=False)
        return Identity(key=key, certificate=builder.sign(self.between.key, SHA256()))

    def _promise_certificate(self, body: bytes, at: datetime) -> bytes:
        """The list of RFC 6962 section 3.3 with one timestamp, as the extension of a certificate has it."""
        milliseconds = int(at.timestamp()) * 1000
        entry = key_id(self.between.key) + len(body).to_bytes(3) + body
        signature = sign(self.certificate_log, struct.pack(">BBQH", 0, 0, milliseconds, 1) + entry + b"\0\0")
        head = struct.pack(
            ">B32sQHBBH", 0, key_id(self.certificate_log), milliseconds, 0, 4, 3, len(signature)
        )
        one = head + signature
        found = struct.pack(">HH", len(one) + 2, len(one)) + one
        return bytes([0x04, len(found)]) + found

    def record(self, body: Mapping[str, Any], at: datetime = NOW) -> dict[str, Any]:
        """The entry of a bundle for what the log takes now; ``at`` is the time that it signs."""
        data = json.dumps(body).encode()
        self.leaves.append(data)
        index, size = len(self.leaves) - 1, len(self.leaves)
        seconds = int(at.timestamp())
        promised = {
            "body": encode(data),
            "integratedTime": seconds,
            "logID": key_id(self.log).hex(),
            "logIndex": index + 1000,
        }
        text = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        root = make_root(self.leaves)
        note = f"{_ORIGIN}\n{size}\n{encode(root)}\n"
        signature = encode(key_id(self.log)[:4] + sign(self.log, note.encode()))
        return {
            "logIndex": str(index + 1000),
            "logId": {"keyId": encode(key_id(self.log))},
            "kindVersion": {"kind": body["kind"], "version": body["apiVersion"]},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": encode(sign(self.log, text))},
            "inclusionProof": {
                "logIndex": str(index),
                "treeSize": str(size),
                "rootHash": encode(root),
                "hashes": [encode(one) for one in make_path(index, self.leaves)],
                "checkpoint": {"envelope": f"{note}\n\u2014 rekor.example {signature}\n"},
            },
            "canonicalizedBody": encode(data),
        }


def _make_log(key: ec.EllipticCurvePrivateKey, valid: Mapping[str, str]) -> dict[str, Any]:
    public = {"rawBytes": encode(public_bytes(key)), "validFor": valid}
    return {"publicKey": public, "logId": {"keyId": encode(key_id(key))}}


def make_root(leaves: Sequence[bytes]) -> bytes:
    """The hash of a tree: RFC 6962 section 2.1."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = _split(len(leaves))
    return hashlib.sha256(b"\1" + make_root(leaves[:split]) + make_root(leaves[split:])).digest()


def make_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """The path of a leaf to the root: RFC 6962 section 2.1.1."""
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*make_path(index, leaves[:split]), make_root(leaves[split:])]
    return [*make_path(index - split, leaves[split:]), make_root(leaves[:split])]


def _split(count: int) -> int:
    """The largest power of two below it."""
    return 1 << (count - 1).bit_length() - 1


def make_dsse_body(payload: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
    """What the log keeps of a signed statement."""
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": encode(signature), "verifier": encode(to_pem(certificate))}],
        },
    }


def make_hashed_body(data: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
    """What the log keeps of any other signature."""
    return {
        "apiVersion": "0.0.1",
        "kind": "hashedrekord",
        "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}},
            "signature": {
                "content": encode(signature),
                "publicKey": {"content": encode(to_pem(certificate))},
            },
        },
    }
