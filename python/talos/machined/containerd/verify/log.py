"""Entries of Rekor, the transparency log of signatures: promised, included, and of the signature in question.

https://github.com/sigstore/rekor/blob/main/openapi.yaml, RFC 6962 sections 2.1 and 3.2,
https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from cryptography import x509

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.parts import (
    bytes_of,
    decode,
    number_of,
    object_of,
    objects_of,
    text_of,
    time_of,
)
from talos.machined.containerd.verify.trusted_root import Log, TrustedRoot, check_signature
from talos.system.errors import UserError

MAX_DEPTH = 64
"""Of a tree of hashes."""
VERSION = "0.0.1"
"""Of the kinds of entries; those of Rekor 2 are 0.0.2."""
_CHECKPOINT = re.compile(
    r"(?P<text>[^\n]+\n(?P<size>[0-9]{1,18})\n(?P<root>[A-Za-z0-9+/=]{44})\n(?:[^\n]+\n)*)\n(?P<signatures>(?:[^\n]+\n)+)"
)
"""A note: origin, size and hash of the tree, and whatever more, a blank line, signatures."""
_SIGNATURE = re.compile(r"\u2014 \S+ (?P<data>[A-Za-z0-9+/=]+)")
_HINT_BYTES = 4
"""Of a log's id, before each signature of a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry, as a bundle has it. ``part`` is the whole of it."""

    body: bytes
    log_id: bytes
    seconds: int
    index: int
    part: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the body of an entry has to be of: the log records who signed what, and how."""

    logged: Mapping[str, bytes]
    """Kinds of entries with what is hashed in each."""
    signature: bytes
    certificate: x509.Certificate


def parse_entry(part: Mapping[str, Any], where: str) -> Entry:
    """An entry in a bundle; UserError."""
    return Entry(
        body=bytes_of(part, "canonicalizedBody", where),
        log_id=bytes_of(object_of(part, "logId"), "keyId", where),
        seconds=number_of(part, "integratedTime", where),
        index=number_of(part, "logIndex", where),
        part=part,
    )


def parse_annotation(text: str, where: str) -> dict[str, Any]:
    """The entry in the annotation of a signed payload, in the form that bundles have; UserError."""
    document = parse_document(text.encode(), where)
    payload = object_of(document, "Payload")
    try:
        log_id = bytes.fromhex(text_of(payload, "logID", where))
    except ValueError:
        raise UserError("logID is not in hexadecimal digits", where=where) from None
    return {
        "canonicalizedBody": payload.get("body"),
        "inclusionPromise": {"signedEntryTimestamp": document.get("SignedEntryTimestamp")},
        "integratedTime": payload.get("integratedTime"),
        "logId": {"keyId": base64.b64encode(log_id).decode()},
        "logIndex": payload.get("logIndex"),
    }


def check_entry(entry: Entry, root: TrustedRoot, where: str, *, needs_proof: bool) -> datetime:
    """When a trusted log took the entry, in seconds that it has signed; UserError."""
    log = root.signature_logs.get(entry.log_id)
    if log is None:
        raise UserError("the log of its signature is not trusted", where=where)
    if not entry.seconds:
        hint = "sign with Rekor 1, which signs the time itself"
        raise UserError("its log has signed no time", where=where, hint=hint)
    time = time_of(entry.seconds, where)
    if time not in log.period:
        raise UserError("the key of its log was not trusted at that time", where=where)
    promise = bytes_of(object_of(entry.part, "inclusionPromise"), "signedEntryTimestamp", where)
    check_signature(log, promise, encode_promise(entry), "its entry in the log is forged", where)
    proof = object_of(entry.part, "inclusionProof")
    if proof:
        _check_proof(entry, proof, log, where)
    elif needs_proof:
        raise UserError("there is no proof that the log has it", where=where)
    return time


def encode_promise(entry: Entry) -> bytes:
    """What a log signs of an entry that it will include: JSON in the one form that RFC 8785 allows."""
    fields = {
        "body": base64.b64encode(entry.body).decode(),
        "integratedTime": entry.seconds,
        "logID": entry.log_id.hex(),
        "logIndex": entry.index,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _check_proof(entry: Entry, proof: Mapping[str, Any], log: Log, where: str) -> None:
    """Whether the entry is a leaf of a tree whose root the log has signed; UserError."""
    value: object = proof.get("hashes")
    hashes = cast("list[object]", value) if isinstance(value, list) else []
    if len(hashes) > MAX_DEPTH:
        raise UserError(f"the proof of the log has {len(hashes)} hashes", where=where)
    path = [decode(one, "a hash of its proof", where) for one in hashes]
    if any(len(one) != hashlib.sha256().digest_size for one in path):
        raise UserError("a hash of its proof is not of SHA-256", where=where)
    index, size = (number_of(proof, key, where) for key in ("logIndex", "treeSize"))
    root = find_root(entry.body, index, size, path)
    checkpoint = _CHECKPOINT.fullmatch(text_of(object_of(proof, "checkpoint"), "envelope", where))
    if checkpoint is None:
        raise UserError("the checkpoint of the log is no signed note", where=where)
    signed = int(checkpoint["size"]), base64.b64decode(checkpoint["root"])
    if root is None or signed != (size, root):
        raise UserError("the log's proof is of another entry", where=where)
    for line in checkpoint["signatures"].splitlines():
        if found := _SIGNATURE.fullmatch(line):
            data = decode(found["data"], "a signature of the checkpoint", where)
            if data[:_HINT_BYTES] == entry.log_id[:_HINT_BYTES]:
                text = "the checkpoint of the log is forged"
                check_signature(log, data[_HINT_BYTES:], checkpoint["text"].encode(), text, where)
                return
    raise UserError("the checkpoint of the log is not signed by it", where=where)


def find_root(body: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """The root of a tree of so many leaves, from one of them and the path to it; None when there is none.

    RFC 9162 section 2.1.3.2.
    """
    if index >= size:
        return None
    found = hashlib.sha256(b"\x00" + body).digest()
    last = size - 1
    for one in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            found = hashlib.sha256(b"\x01" + one + found).digest()
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\x01" + found + one).digest()
        index, last = index >> 1, last >> 1
    return found if last == 0 else None


def check_body(body: bytes, expected: Expected, where: str) -> None:
    """Whether an entry is of this signature and no other; UserError."""
    document = parse_document(body, where)
    spec = object_of(document, "spec")
    kind, version = str(document.get("kind")), document.get("apiVersion")
    if kind not in expected.logged or version != VERSION:
        text = f"its entry in the log is of the kind {kind[:40]!r}, version {str(version)[:20]!r}"
        raise UserError(f"{text}, not {' or '.join(expected.logged)} {VERSION}", where=where)
    if kind == "dsse":
        digest = object_of(spec, "payloadHash")
        signatures = objects_of(spec, "signatures")
        one = signatures[0] if len(signatures) == 1 else {}
        signature, certificate = one.get("signature"), one.get("verifier")
    else:
        digest = object_of(spec, "data", "hash")
        signature = object_of(spec, "signature").get("content")
        certificate = object_of(spec, "signature", "publicKey").get("content")
    matches = (
        digest.get("algorithm") == "sha256"
        and digest.get("value") == hashlib.sha256(expected.logged[kind]).hexdigest()
        and decode(signature, "the signature in the log", where) == expected.signature
        and parse_certificate(decode(certificate, "the certificate in the log", where), where)
        == expected.certificate
    )
    if not matches:
        raise UserError("its entry in the log is of another signature", where=where)
