"""Signatures of releases by a key in a file, or elsewhere (``talos.pki.signer``)."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from talos.pki.signer import is_remote, open_signer
from talos.system.errors import UserError
from talos.upgrade.release.signature import ReleaseKey, load_private, load_public, sign


def sign_manifest(manifest: bytes, key: str, public: Path | None) -> str:
    """The signature of a manifest, in base64. UserError.

    ``public`` is the file of the public key; without it the private one has to be a file's.
    """
    return sign(manifest, open_key(key, public)[0])


def open_key(key: str, public: Path | None) -> tuple[ReleaseKey, Ed25519PublicKey]:
    """Who signs with a key, and its public half; the arguments are :func:`sign_manifest`'s. UserError."""
    if is_remote(key):
        if public is None:
            raise UserError("which key is it?", where="--key", hint="--public-key has its file")
        half = load_public(public)
        return open_signer(key, half, str(public)), half
    private = load_private(Path(key))
    if public is not None and load_public(public) != private.public_key():
        raise UserError(f"does not belong to {public}", where=key)
    return private, private.public_key()
