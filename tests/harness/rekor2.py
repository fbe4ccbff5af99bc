"""A log of Rekor 2, which signs no times, with an authority that does."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.harness.sigstore import NOW, encode, make_path, make_root, public_bytes
from tests.harness.sigstore import sign as sign_ecdsa
from tests.harness.timestamps import TimestampAuthority

HOST = "log2026-1.rekor.example"


@dataclass(frozen=True, kw_only=True)
class Rekor2:
    """Its key, its leaves, and the authority of timestamps that clients are to use with it."""

    host: str = HOST
    key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey = field(
        default_factory=ed25519.Ed25519PrivateKey.generate
    )
    authority: TimestampAuthority = field(default_factory=TimestampAuthority)
    leaves: list[bytes] = field(default_factory=lambda: [b"first", b"second", b"third"])

    @property
    def key_id(self) -> bytes:
        """That of its key in checkpoints."""
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return hashlib.sha256(public_bytes(self.key)).digest()
        public = self.key.public_key().public_bytes_raw()
        return hashlib.sha256(self.host.encode() + b"\n\x01" + public).digest()

    def sign(self, data: bytes) -> bytes:
        key = self.key
        return sign_ecdsa(key, data) if isinstance(key, ec.EllipticCurvePrivateKey) else key.sign(data)

    def trust(self, root: Mapping[str, Any]) -> dict[str, Any]:
        """A trusted root with the log and the authority beside what it has."""
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        start = (NOW - timedelta(days=100)).isoformat().replace("+00:00", "Z")
        log = {
            "baseUrl": f"https://{self.host}",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {"rawBytes": encode(public), "validFor": {"start": start}},
            "logId": {"keyId": encode(self.key_id)},
        }
        authorities = [*root.get("timestampAuthorities", ()), self.authority.trusted()]
        return {**root, "tlogs": [*root["tlogs"], log], "timestampAuthorities": authorities}

    def record(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of a bundle for what the log takes now."""
        data = json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        self.leaves.append(data)
        index = len(self.leaves) - 1
        return {
            "logIndex": str(index),
            "logId": {"keyId": encode(self.key_id)},
            "kindVersion": {"kind": body["kind"], "version": body["apiVersion"]},
            "integratedTime": "0",
            "inclusionPromise": None,
            "inclusionProof": {
                "logIndex": str(index),
                "treeSize": str(len(self.leaves)),
                "rootHash": encode(make_root(self.leaves)),
                "hashes": [encode(one) for one in make_path(index, self.leaves)],
                "checkpoint": {"envelope": self.make_checkpoint()},
            },
            "canonicalizedBody": encode(data),
        }

    def make_checkpoint(self, *, origin: str = "", name: str = "", witness: str = "") -> str:
        """What it has signed of all its leaves; a line of a witness may stand before its own."""
        note = f"{origin or self.host}\n{len(self.leaves)}\n{encode(make_root(self.leaves))}\n"
        signature = encode(self.key_id[:4] + self.sign(note.encode()))
        return f"{note}\n{witness}\u2014 {name or self.host} {signature}\n"

    def make_timestamps(self, signature: bytes, at: datetime = NOW) -> dict[str, Any]:
        """The part of a bundle with one timestamp."""
        return {"rfc3161Timestamps": [{"signedTimestamp": encode(self.authority.stamp(signature, at))}]}


def make_dsse_body(payload: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
    """What the log keeps of a signed statement."""
    spec = {"payloadHash": _hash(payload), "signatures": [_make_signature(signature, certificate)]}
    return {"apiVersion": "0.0.2", "kind": "dsse", "spec": {"dsseV002": spec}}


def make_hashed_body(data: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
    """What the log keeps of any other signature."""
    spec = {"data": _hash(data), "signature": _make_signature(signature, certificate)}
    return {"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": {"hashedRekordV002": spec}}


def _hash(data: bytes) -> dict[str, str]:
    return {"algorithm": "SHA2_256", "digest": encode(hashlib.sha256(data).digest())}


def _make_signature(signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
    verifier = {
        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
        "x509Certificate": {"rawBytes": encode(certificate.public_bytes(Encoding.DER))},
    }
    return {"content": encode(signature), "verifier": verifier}
