"""A small repository by The Update Framework, with consistent snapshots, that a test may damage."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from talos.system.errors import UserError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROLES: tuple[str, ...] = ("root", "timestamp", "snapshot", "targets")
TARGET = "trusted_root.json"

type Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def make_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def describe_key(key: Key) -> dict[str, Any]:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        public = key.public_key().public_bytes_raw().hex()
        return {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": public}}
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return {"keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": pem}}


def key_id(key: Key) -> str:
    return hashlib.sha256(canonical(describe_key(key))).hexdigest()


def canonical(value: object) -> bytes:
    """Right for texts without backslashes and control characters but line ends."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("\\n", "\n").encode()


def sign(signed: Mapping[str, Any], keys: Sequence[Key]) -> bytes:
    signatures = [{"keyid": key_id(key), "sig": _sign(key, canonical(signed)).hex()} for key in keys]
    return json.dumps({"signatures": signatures, "signed": signed}, indent=1).encode()


def _sign(key: Key, data: bytes) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    return key.sign(data, ec.ECDSA(SHA256()))


def describe(data: bytes) -> dict[str, Any]:
    return {"length": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}


class Repository:
    """Files by their names. What a test changes counts from the next ``publish`` or ``rotate`` on."""

    def __init__(self, target: bytes, now: datetime = NOW) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.keys: dict[str, list[Key]] = {role: [make_key()] for role in ROLES}
        self.keys["root"] = [make_key() for _ in range(3)]
        self.thresholds = dict.fromkeys(ROLES, 1) | {"root": 2}
        self.versions = dict.fromkeys(ROLES, 0)
        self.expires = {role: now + timedelta(days=200 if role == "root" else 7) for role in ROLES}
        self.rotate()
        self.publish(target)

    @property
    def root(self) -> str:
        """The newest root."""
        return self.files[f"{self.versions['root']}.root.json"].decode()

    def rotate(self, signers: Sequence[Key] = ()) -> None:
        """Make the next root, signed by its own keys and by those of ``signers``."""
        all_keys = [key for keys in self.keys.values() for key in keys]
        content = {
            "consistent_snapshot": True,
            "keys": {key_id(key): describe_key(key) for key in all_keys},
            "roles": {
                role: {"keyids": [key_id(key) for key in keys], "threshold": self.thresholds[role]}
                for role, keys in self.keys.items()
            },
        }
        self.write("root", content, [*self.keys["root"], *signers])

    def publish(self, target: bytes) -> None:
        """Make the next version of everything but the root."""
        name = f"targets/{hashlib.sha256(target).hexdigest()}.{TARGET}"
        self.files[name] = target
        self.write("targets", {"targets": {TARGET: describe(target)}})
        self.list_targets()

    def list_targets(self) -> None:
        """Make the next snapshot and timestamp."""
        targets = self.files[f"{self.versions['targets']}.targets.json"]
        listed = {"targets.json": {**describe(targets), "version": self.versions["targets"]}}
        self.write("snapshot", {"meta": listed})
        self.stamp()

    def stamp(self) -> None:
        """Make the next timestamp."""
        self.write("timestamp", {"meta": {"snapshot.json": {"version": self.versions["snapshot"]}}})

    def write(self, role: str, content: Mapping[str, Any], keys: Sequence[Key] = ()) -> None:
        self.versions[role] += 1
        version = self.versions[role]
        expires = f"{self.expires[role]:%Y-%m-%dT%H:%M:%SZ}"
        head = {"_type": role, "spec_version": "1.0", "version": version, "expires": expires}
        name = f"{role}.json" if role == "timestamp" else f"{version}.{role}.json"
        self.files[name] = sign({**head, **content}, keys or self.keys[role])

    def fetch(self, name: str, bound: int) -> bytes | None:
        self.requests.append(name)
        data = self.files.get(name)
        if data is not None and len(data) > bound:
            raise UserError(f"more than {bound} bytes came", where=name)
        return data
