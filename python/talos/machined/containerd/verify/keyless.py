"""Who may have signed: an identity of an issuer, whose certificate and signature are in public logs."""

from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from talos.machined.containerd.verify.certificate import check_certificate, check_identity
from talos.machined.containerd.verify.der import parse_certificate
from talos.machined.containerd.verify.log import (
    Expected,
    check_body,
    check_entry,
    parse_annotation,
    parse_entry,
)
from talos.machined.containerd.verify.parts import bytes_of, object_of, objects_of
from talos.machined.containerd.verify.request import Request
from talos.machined.containerd.verify.signed import Signed, check_signature
from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.system.errors import UserError


def verify_identity(signed: Signed, request: Request) -> None:
    """Whether a signature is by an identity that the request names; UserError."""
    where = request.where
    root = parse_trusted_root(request.trusted_root)
    if request.signature:
        data, part = request.certificate.encode(), parse_annotation(request.entry or "{}", where)
    else:
        data, part = _find_material(signed.material, where)
    certificate = parse_certificate(data, where)
    entry = parse_entry(part, where)
    # A certificate is for ten minutes: only a time that another has signed shows that it was valid.
    time = check_entry(entry, root, where, needs_proof=not request.signature)
    check_certificate(certificate, root, time, where)
    check_identity(certificate, request, where)
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise UserError("its certificate has no ECDSA, Ed25519 or RSA key", where=where)
    check_signature(signed, key, "it is not signed by the key of its certificate", where)
    check_body(
        entry.body,
        Expected(logged=signed.logged, signature=signed.signature, certificate=certificate),
        where,
    )


def _find_material(material: Mapping[str, Any], where: str) -> tuple[bytes, Mapping[str, Any]]:
    """The certificate and the one entry in a log of a bundle; UserError."""
    if "certificate" not in material:
        raise UserError("it is signed with a key, without a certificate", where=where)
    entries = objects_of(material, "tlogEntries")
    if len(entries) != 1:
        raise UserError(f"a bundle with {len(entries)} entries of logs, not one", where=where)
    return bytes_of(object_of(material, "certificate"), "rawBytes", where), entries[0]
