"""Signatures of images as cosign makes them: bundles, and the older signed payloads.

https://github.com/sigstore/protobuf-specs, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md,
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from talos.images.manifest import parse_document
from talos.machined.containerd.verify.keyless import verify_identity
from talos.machined.containerd.verify.parts import bytes_of, decode, object_of, objects_of
from talos.machined.containerd.verify.request import BUNDLES, Request
from talos.machined.containerd.verify.signed import Signed, check_signature
from talos.pki.keys import parse_public_key
from talos.system.errors import UserError
from talos.system.parsed import as_object

STATEMENT = "application/vnd.in-toto+json"
SIGNED = "https://sigstore.dev/cosign/sign/v1"
"""The one predicate that approves an image. Others, such as a scanner's result, state something about it."""
CLAIM = "cosign container image signature"
"""The type of a signed payload of the older form."""


def verify_signature(request: Request) -> None:
    """Whether it is a signature of the image by who may have signed it; UserError when it isn't."""
    where = request.where
    if request.signature:
        signature = decode(request.signature, "the signature", where)
        signed = Signed(data=request.data, signature=signature, logged={"hashedrekord": request.data})
        _verify_signer(signed, request)
        _check_claim(request.data, request.image, where)
        return
    bundle = parse_document(request.data, where)
    kind = bundle.get("mediaType")
    if kind not in BUNDLES:
        raise UserError(f"a bundle of the form {str(kind)[:80]!r}, not 0.3", where=where)
    material = object_of(bundle, "verificationMaterial")
    if "dsseEnvelope" in bundle:
        signed = _open_envelope(as_object(bundle["dsseEnvelope"]), material, where)
        _verify_signer(signed, request)
        _check_statement(signed.logged["dsse"], request.image, where)
    elif "messageSignature" in bundle:
        signature = bytes_of(as_object(bundle["messageSignature"]), "signature", where)
        image = request.image
        signed = Signed(data=image, signature=signature, logged={"hashedrekord": image}, material=material)
        _verify_signer(signed, request)
    else:
        raise UserError("a bundle without a signature", where=where)


def _verify_signer(signed: Signed, request: Request) -> None:
    if request.key:
        key = parse_public_key(request.key.encode(), where="publicKey of the rule")
        check_signature(signed, key, "it is not signed by the key of the rule", request.where)
    else:
        verify_identity(signed, request)


def _open_envelope(envelope: Mapping[str, Any], material: Mapping[str, Any], where: str) -> Signed:
    payload = bytes_of(envelope, "payload", where)
    kind = envelope.get("payloadType")
    signatures = objects_of(envelope, "signatures")
    if kind != STATEMENT or len(signatures) != 1:
        raise UserError("it is no statement with one signature", where=where)
    signature = bytes_of(signatures[0], "sig", where)
    data = _encode_envelope(kind, payload)
    logged = {"dsse": payload, "hashedrekord": data}
    return Signed(data=data, signature=signature, logged=logged, material=material)


def _encode_envelope(kind: str, payload: bytes) -> bytes:
    """What is signed of an envelope: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def _check_statement(payload: bytes, image: bytes, where: str) -> None:
    statement = parse_document(payload, where)
    if statement.get("predicateType") != SIGNED:
        text = str(statement.get("predicateType"))[:80]
        raise UserError(f"it states {text!r} of the image, and does not approve it", where=where)
    subjects: object = statement.get("subject")
    digests = [
        object_of(as_object(subject), "digest").get("sha256")
        for subject in (cast("list[object]", subjects) if isinstance(subjects, list) else ())
    ]
    if hashlib.sha256(image).hexdigest() not in digests:
        raise UserError("it is a signature of another image", where=where)


def _check_claim(payload: bytes, image: bytes, where: str) -> None:
    claim = object_of(parse_document(payload, where), "critical")
    digest = object_of(claim, "image").get("docker-manifest-digest")
    if claim.get("type") != CLAIM or digest != f"sha256:{hashlib.sha256(image).hexdigest()}":
        raise UserError("it is a signature of another image", where=where)
