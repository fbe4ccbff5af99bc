"""Signatures of releases by a key in a file, or elsewhere (``talos.pki.signer``)."""

from pathlib import Path

from talos.pki.signer import is_remote, open_signer
from talos.system.errors import UserError
from talos.upgrade.release.signature import ReleaseKey, load_private, load_public, sign


def sign_manifest(manifest: bytes, key: str, public: Path | None) -> str:
    """The signature of a manifest, in base64. UserError.

    ``public`` is the file of the public key; without it the private one has to be a file's.
    """
    return sign(manifest, _open_key(key, public))


def _open_key(key: str, public: Path | None) -> ReleaseKey:
    if is_remote(key):
        if public is None:
            raise UserError("which key is it?", where="--key", hint="--public-key has its file")
        return open_signer(key, load_public(public), str(public))
    private = load_private(Path(key))
    if public is not None and load_public(public) != private.public_key():
        raise UserError(f"does not belong to {public}", where=key)
    return private
