"""Proofs that a log has an entry: a path in a tree of hashes, whose root the log has signed.

RFC 9162 section 2.1.3, https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md and signed-note.md
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from talos.machined.containerd.verify.parts import decode, number_of, object_of, text_of
from talos.machined.containerd.verify.trusted_root import Log, check_signature
from talos.system.errors import UserError

MAX_DEPTH = 64
"""Of a tree of hashes."""
_CHECKPOINT = re.compile(
    r"(?P<text>(?P<origin>[^\n]+)\n(?P<size>[0-9]{1,18})\n(?P<root>[A-Za-z0-9+/=]{44})\n(?:[^\n]+\n)*)"
    r"\n(?P<signatures>(?:[^\n]+\n)+)"
)
"""A note: origin, size and hash of the tree, and whatever more, a blank line, signatures."""
_TREE = re.compile(r".* - [0-9]+")
"""The origin of a checkpoint of Rekor 1, by the number of its tree. That of Rekor 2 is the log's host."""
_SIGNATURE = re.compile(r"\u2014 (?P<name>\S+) (?P<data>[A-Za-z0-9+/=]+)")
_HINT_BYTES = 4
"""Of the id of a key, before each signature of a note."""


def check_proof(body: bytes, index: int, proof: Mapping[str, Any], log: Log, where: str) -> None:
    """Whether the body of an entry is a leaf of a tree whose root the log has signed; UserError.

    ``index`` is that of the entry in the log. Rekor 1 has several trees: that in the tree is in the proof.
    """
    path = _parse_path(proof, where)
    checkpoint = _CHECKPOINT.fullmatch(text_of(object_of(proof, "checkpoint"), "envelope", where))
    if checkpoint is None:
        raise UserError("the checkpoint of the log is no signed note", where=where)
    size = signed_size = int(checkpoint["size"])
    if _TREE.fullmatch(checkpoint["origin"]):
        index, size = (number_of(proof, key, where) for key in ("logIndex", "treeSize"))
    root = find_root(body, index, size, path)
    if root is None or (size, root) != (signed_size, base64.b64decode(checkpoint["root"])):
        raise UserError("the log's proof is of another entry", where=where)
    _check_checkpoint(checkpoint, log, where)


def _parse_path(proof: Mapping[str, Any], where: str) -> list[bytes]:
    value: object = proof.get("hashes")
    hashes = cast("list[object]", value) if isinstance(value, list) else []
    if len(hashes) > MAX_DEPTH:
        raise UserError(f"the proof of the log has {len(hashes)} hashes", where=where)
    path = [decode(one, "a hash of its proof", where) for one in hashes]
    if any(len(one) != hashlib.sha256().digest_size for one in path):
        raise UserError("a hash of its proof is not of SHA-256", where=where)
    return path


def _check_checkpoint(checkpoint: re.Match[str], log: Log, where: str) -> None:
    """Whether the log has signed it; UserError. In Rekor 2 it also has to name the log, by its host."""
    origin, key_id, name = checkpoint["origin"], log.id, None
    if not _TREE.fullmatch(origin):
        key_id, name = make_key_id(log), log.host
        if origin != name:
            raise UserError(f"the checkpoint is of the log {origin[:80]!r}, not of {name!r}", where=where)
    for line in checkpoint["signatures"].splitlines():
        found = _SIGNATURE.fullmatch(line)
        if found and name in (None, found["name"]):
            data = decode(found["data"], "a signature of the checkpoint", where)
            if data[:_HINT_BYTES] == key_id[:_HINT_BYTES]:
                text = "the checkpoint of the log is forged"
                check_signature(log, data[_HINT_BYTES:], checkpoint["text"].encode(), text, where)
                return
    raise UserError("the checkpoint of the log is not signed by it", where=where)


def make_key_id(log: Log) -> bytes:
    """The id of the log's key in notes; that of a key for ECDSA is of the key alone."""
    if isinstance(log.key, ed25519.Ed25519PublicKey):
        public = log.key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(b"%s\n\x01%s" % (log.host.encode(), public)).digest()
    return hashlib.sha256(log.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


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
