"""Metadata of a repository by The Update Framework: read with bounds, signed by a threshold of a role's keys.

https://theupdateframework.github.io/specification/v1.0.33/ (section 4)
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from talos.machined.containerd.verify.parts import object_of, objects_of, text_of
from talos.machined.containerd.verify.signed import verify
from talos.machined.tuf.canonical import format_canonical
from talos.pki.keys import PublicKey
from talos.system.errors import UserError
from talos.system.parsed import as_object

_TIME = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_MAJOR = "1."
"""How the version of the specification begins that a file is made by."""
_DIGESTS: Mapping[str, re.Pattern[str]] = {
    "sha256": re.compile("[0-9a-f]{64}", re.ASCII),
    "sha512": re.compile("[0-9a-f]{128}", re.ASCII),
}
"""Those that count, in hexadecimal; files may list others, too."""


class Role(StrEnum):
    """What a file of metadata is, and whose keys sign it."""

    ROOT = "root"
    TIMESTAMP = "timestamp"
    SNAPSHOT = "snapshot"
    TARGETS = "targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A file of metadata, whose form is right and whose signatures are yet to be verified."""

    role: Role
    text: str
    version: int
    expires: datetime
    signed: Mapping[str, Any]
    payload: bytes
    """``signed`` in its canonical form: what the signatures are of."""
    signatures: tuple[tuple[str, str], ...]
    """Ids of keys, each with a signature in hexadecimal."""

    @property
    def where(self) -> str:
        """The place of its errors."""
        return f"{self.role}.json, version {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """What a file lists of another: a ``version`` if that is metadata, bytes, digests in hexadecimal."""

    name: str
    version: int = 0
    length: int | None = None
    digests: Mapping[str, str] = field(default_factory=dict[str, str])

    def matches(self, data: bytes) -> bool:
        """Whether a file has the length and the digests, as far as they are listed."""
        return self.length in (None, len(data)) and all(
            hashlib.new(name, data).hexdigest() == digest for name, digest in self.digests.items()
        )


def parse_metadata(data: bytes, role: Role) -> Metadata:
    """A file of a role; UserError."""
    where = f"{role}.json"
    try:
        text = data.decode()
        document = as_object(json.loads(text))
        signed = object_of(document, "signed")
        payload = format_canonical(signed)
    except (ValueError, RecursionError):
        raise UserError("it is no JSON, or has what can't be signed", where=where) from None
    if signed.get("_type") != role or not str(signed.get("spec_version")).startswith(_MAJOR):
        raise UserError(f"it is not what {role} has by TUF's specification 1", where=where)
    return Metadata(
        role=role,
        text=text,
        version=_parse_number(signed, "version", where),
        expires=_parse_time(signed, where),
        signed=signed,
        payload=payload,
        signatures=tuple(
            (str(one.get("keyid")), str(one.get("sig"))) for one in objects_of(document, "signatures")
        ),
    )


def _parse_number(part: Mapping[str, Any], key: str, where: str) -> int:
    """A number above 0; UserError."""
    value: object = part.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise UserError(f"{key} is no number above 0", where=where)


def _parse_time(signed: Mapping[str, Any], where: str) -> datetime:
    text = text_of(signed, "expires", where)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or not _TIME.fullmatch(text):
        raise UserError("expires is no time", where=where)
    return time


def check_expiry(metadata: Metadata, now: datetime) -> None:
    """UserError when it has expired: a newer one is withheld, or the clock is wrong."""
    if metadata.expires <= now:
        raise UserError(f"it expired at {metadata.signed['expires']}", where=metadata.where)


def check_signatures(metadata: Metadata, root: Metadata) -> None:
    """UserError unless as many keys of the role have signed it as the ``root`` demands."""
    if not is_signed(metadata, root):
        raise UserError(
            f"too few keys of version {root.version} of the root have signed it", where=metadata.where
        )


def is_signed(metadata: Metadata, root: Metadata) -> bool:
    """Whether as many keys of the role have signed it as the ``root`` demands; UserError."""
    part = object_of(root.signed, "roles", metadata.role)
    threshold = _parse_number(part, "threshold", root.where)
    listed: object = part.get("keyids")
    ids = {str(one) for one in cast("list[object]", listed)} if isinstance(listed, list) else set[str]()
    signers: set[bytes] = set()
    for one, signature in metadata.signatures:
        key = _find_key(root, one) if one in ids else None
        if key is not None and _has_signed(key, signature, metadata.payload):
            # A key counts once, by whichever ids it is listed.
            signers.add(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return len(signers) >= threshold


def _find_key(root: Metadata, key_id: str) -> PublicKey | None:
    """A key of a scheme that Sigstore signs with; None for others, which don't count."""
    part = object_of(root.signed, "keys", key_id)
    public = str(object_of(part, "keyval").get("public"))
    try:
        match part.get("scheme"):
            case "ecdsa-sha2-nistp256":
                key = load_pem_public_key(public.encode())
                if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
                    return key
            case "ed25519":
                return ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            case _:
                pass
    except (ValueError, UnsupportedAlgorithm):
        pass
    return None


def _has_signed(key: PublicKey, signature: str, payload: bytes) -> bool:
    try:
        verify(key, bytes.fromhex(signature), payload)
    except (InvalidSignature, ValueError):
        return False
    return True


def find_metadata(metadata: Metadata, name: str) -> FileInfo:
    """What a timestamp or a snapshot lists of another file of metadata; UserError."""
    part = object_of(metadata.signed, "meta", name)
    version = _parse_number(part, "version", f"{metadata.where}: {name}")
    return FileInfo(
        name=f"{version}.{name}",
        version=version,
        length=_find_length(part, metadata, name),
        digests=_find_digests(part),
    )


def list_metadata(metadata: Metadata) -> list[str]:
    """The names of all files that a snapshot lists."""
    return list(object_of(metadata.signed, "meta"))


def find_target(targets: Metadata, name: str) -> FileInfo:
    """What targets list of a file; UserError, also when they have no digest that counts."""
    part = object_of(targets.signed, "targets", name)
    digests, length = _find_digests(part), _find_length(part, targets, name)
    if not digests or length is None:
        raise UserError(f"they don't list {name} with its digest and length", where=targets.where)
    return FileInfo(name=f"targets/{next(iter(digests.values()))}.{name}", length=length, digests=digests)


def _find_length(part: Mapping[str, Any], metadata: Metadata, name: str) -> int | None:
    return _parse_number(part, "length", f"{metadata.where}: {name}") if "length" in part else None


def _find_digests(part: Mapping[str, Any]) -> Mapping[str, str]:
    found = object_of(part, "hashes")
    return {name: found[name] for name, form in _DIGESTS.items() if form.fullmatch(str(found.get(name)))}
