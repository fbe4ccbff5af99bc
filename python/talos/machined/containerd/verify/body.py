"""What a log keeps of a signature.

https://github.com/sigstore/rekor/tree/main/pkg/types, https://github.com/sigstore/rekor-tiles/blob/main/CLIENTS.md
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.parts import decode, object_of, objects_of
from talos.system.errors import UserError

VERSIONS = ("0.0.1", "0.0.2")
"""Of the kinds of entries: those of Rekor 1 and of Rekor 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEntry:
    """What the body of an entry has to be of: the log records who signed what, and how."""

    logged: Mapping[str, bytes]
    """Kinds of entries with what is hashed in each."""
    signature: bytes
    certificate: x509.Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoggedEntry:
    """What an entry is of: a part with a hash; a signature, and a certificate in PEM or DER, in base64."""

    digest: Mapping[str, Any]
    signature: object
    certificate: object


def check_body(body: bytes, expected: ExpectedEntry, where: str) -> None:
    """Whether an entry is of this signature and no other; UserError."""
    document = parse_document(body, where)
    kind, version = str(document.get("kind")), str(document.get("apiVersion"))
    if kind not in expected.logged or version not in VERSIONS:
        text = f"its entry in the log is of the kind {kind[:40]!r}, version {version[:20]!r}"
        raise UserError(f"{text}, not {' or '.join(expected.logged)} {' or '.join(VERSIONS)}", where=where)
    digest = hashlib.sha256(expected.logged[kind])
    if version == "0.0.1":
        found = _find_first(kind, object_of(document, "spec"))
        wanted = {"algorithm": "sha256", "value": digest.hexdigest()}
    else:
        found = _find_second(kind, object_of(document, "spec"))
        wanted = {"algorithm": "SHA2_256", "digest": base64.b64encode(digest.digest()).decode()}
    certificate = decode(found.certificate, "the certificate in the log", where)
    matches = (
        wanted.items() <= found.digest.items()
        and decode(found.signature, "the signature in the log", where) == expected.signature
        and parse_certificate(certificate, where) == expected.certificate
    )
    if not matches:
        raise UserError("its entry in the log is of another signature", where=where)


def _find_first(kind: str, spec: Mapping[str, Any]) -> _LoggedEntry:
    """What Rekor 1 has recorded."""
    if kind == "dsse":
        one = _find_only(spec)
        return _LoggedEntry(
            digest=object_of(spec, "payloadHash"),
            signature=one.get("signature"),
            certificate=one.get("verifier"),
        )
    return _LoggedEntry(
        digest=object_of(spec, "data", "hash"),
        signature=object_of(spec, "signature").get("content"),
        certificate=object_of(spec, "signature", "publicKey").get("content"),
    )


def _find_second(kind: str, spec: Mapping[str, Any]) -> _LoggedEntry:
    """What Rekor 2 has recorded."""
    if kind == "dsse":
        spec = object_of(spec, "dsseV002")
        digest, one = object_of(spec, "payloadHash"), _find_only(spec)
    else:
        spec = object_of(spec, "hashedRekordV002")
        digest, one = object_of(spec, "data"), object_of(spec, "signature")
    certificate = object_of(one, "verifier", "x509Certificate").get("rawBytes")
    return _LoggedEntry(digest=digest, signature=one.get("content"), certificate=certificate)


def _find_only(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one signature of an envelope; empty when there are more."""
    signatures = objects_of(spec, "signatures")
    return signatures[0] if len(signatures) == 1 else {}
