"""Entries of Rekor, the transparency log of signatures: promised, with a time, or included.

https://github.com/sigstore/rekor/blob/main/openapi.yaml, https://github.com/sigstore/rekor-tiles/blob/main/CLIENTS.md
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.parts import bytes_of, number_of, object_of, text_of
from talos.machined.containerd.verify.proof import check_proof
from talos.machined.containerd.verify.trusted_root import Log, check_signature
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry, as a bundle has it. ``part`` is the whole of it."""

    body: bytes
    log_id: bytes
    seconds: int
    """When the log took it, since 1970. Signed with a promise only; Rekor 2 has 0."""
    index: int
    part: Mapping[str, Any]


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


def check_entry(entry: Entry, log: Log, where: str, *, needs_proof: bool) -> bool:
    """Whether a log has signed the time of an entry that it has, or will include; UserError."""
    promise, proof = (object_of(entry.part, key) for key in ("inclusionPromise", "inclusionProof"))
    if promise:
        if not entry.seconds:
            raise UserError("its log has promised it without a time", where=where)
        signature = bytes_of(promise, "signedEntryTimestamp", where)
        check_signature(log, signature, encode_promise(entry), "its entry in the log is forged", where)
    if proof:
        check_proof(entry.body, entry.index, proof, log, where)
    elif needs_proof or not promise:
        raise UserError("there is no proof that the log has it", where=where)
    return bool(promise)


def encode_promise(entry: Entry) -> bytes:
    """What a log signs of an entry that it will include: JSON in the one form that RFC 8785 allows."""
    fields = {
        "body": base64.b64encode(entry.body).decode(),
        "integratedTime": entry.seconds,
        "logID": entry.log_id.hex(),
        "logIndex": entry.index,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
