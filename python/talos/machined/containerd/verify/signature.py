"""Signatures of images as cosign makes them with a key: bundles, and the older signed payloads.

https://github.com/sigstore/protobuf-specs, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md,
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.search import BUNDLES
from talos.pki.keys import PublicKey
from talos.system.errors import UserError
from talos.system.parsed import as_object

STATEMENT = "application/vnd.in-toto+json"
SIGNED = "https://sigstore.dev/cosign/sign/v1"
"""The one predicate that approves an image. Others, such as a scanner's result, state something about it."""
CLAIM = "cosign container image signature"
"""The type of a signed payload of the older form."""


def verify_bundle(data: bytes, image: bytes, key: PublicKey, where: str) -> None:
    """Whether a bundle is a signature of an image, by the bytes of its manifest; UserError when it isn't."""
    bundle = parse_document(data, where)
    kind = bundle.get("mediaType")
    if kind not in BUNDLES:
        raise UserError(f"a bundle of the form {str(kind)[:80]!r}, not 0.3", where=where)
    if "dsseEnvelope" in bundle:
        _verify_envelope(as_object(bundle["dsseEnvelope"]), image, key, where)
    elif "messageSignature" in bundle:
        signature = _decode(as_object(bundle["messageSignature"]).get("signature"), where)
        _verify(key, signature, image, where)
    else:
        raise UserError("a bundle without a signature", where=where)


def _verify_envelope(envelope: Mapping[str, Any], image: bytes, key: PublicKey, where: str) -> None:
    payload = _decode(envelope.get("payload"), where)
    kind = envelope.get("payloadType")
    signatures: object = envelope.get("signatures")
    if kind != STATEMENT or not isinstance(signatures, list) or len(cast("list[object]", signatures)) != 1:
        raise UserError("it is no statement with one signature", where=where)
    signature = _decode(as_object(cast("list[object]", signatures)[0]).get("sig"), where)
    _verify(key, signature, _encode_envelope(kind, payload), where)
    statement = parse_document(payload, where)
    if statement.get("predicateType") != SIGNED:
        text = str(statement.get("predicateType"))[:80]
        raise UserError(f"it states {text!r} of the image, and does not approve it", where=where)
    subjects: object = statement.get("subject")
    digests = [
        as_object(as_object(subject).get("digest")).get("sha256")
        for subject in (cast("list[object]", subjects) if isinstance(subjects, list) else ())
    ]
    if hashlib.sha256(image).hexdigest() not in digests:
        raise UserError("it is a signature of another image", where=where)


def _encode_envelope(kind: str, payload: bytes) -> bytes:
    """What is signed of an envelope: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def verify_payload(payload: bytes, signature: str, image: bytes, key: PublicKey, where: str) -> None:
    """Whether a signed payload of the older form is of an image; UserError when it isn't."""
    _verify(key, _decode(signature, where), payload, where)
    claim = as_object(parse_document(payload, where).get("critical"))
    digest = as_object(claim.get("image")).get("docker-manifest-digest")
    if claim.get("type") != CLAIM or digest != f"sha256:{hashlib.sha256(image).hexdigest()}":
        raise UserError("it is a signature of another image", where=where)


def _verify(key: PublicKey, signature: bytes, data: bytes, where: str) -> None:
    try:
        match key:
            case ec.EllipticCurvePublicKey():
                key.verify(signature, data, ec.ECDSA(SHA256()))
            case rsa.RSAPublicKey():
                key.verify(signature, data, padding.PKCS1v15(), SHA256())
            case ed25519.Ed25519PublicKey():
                key.verify(signature, data)
    except InvalidSignature:
        raise UserError("it is not signed by the key of the rule", where=where) from None


def _decode(text: object, where: str) -> bytes:
    try:
        return base64.b64decode(cast("str", text), validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise UserError("a signature that is not in base64", where=where) from None
