"""Signatures of releases: Ed25519 over the bytes of the manifest, by as many keys as an image requires.

Builds are reproducible, so each of two builders can make a release for itself and sign its manifest, which
has the digest of every file: a system that takes it only with both signatures trusts neither of them alone.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from talos.system.errors import UserError
from talos.upgrade.release.initramfs import KEY_SUFFIX, MAX_KEY, MAX_KEYS, NEEDED

WHERE = "release signature"
KEYS = Path("/usr/install/release/keys")
"""Where the early init shows the keys that came with this system's initramfs."""
_CONTEXT = b"talos release v1\n"
"""Precedes what is signed, so that no signature of anything else with the same key is one of a release."""


def load_keys(folder: Path = KEYS) -> tuple[Ed25519PublicKey, ...]:
    """The public keys of a folder; none when it isn't there. UserError when a file is no key."""
    if not folder.is_dir():
        return ()
    paths = sorted(path for path in folder.iterdir() if path.suffix == KEY_SUFFIX)
    if len(paths) > MAX_KEYS:
        raise UserError(f"more than {MAX_KEYS} keys", where=str(folder))
    return tuple(load_public(path) for path in paths)


def load_needed(folder: Path = KEYS) -> int:
    """How many of a folder's keys must have signed: as its file of that name has it, else 1. UserError."""
    path = folder / NEEDED
    try:
        text = path.read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return 1
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(path)) from None
    if not (text.isdecimal() and len(text) <= len(str(MAX_KEYS)) and 1 <= int(text) <= MAX_KEYS):
        raise UserError(f"{text[:20]!r} is no number from 1 to {MAX_KEYS}", where=str(path))
    return int(text)


def load_public(path: Path) -> Ed25519PublicKey:
    """A public key's file; UserError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY + 1)
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(path)) from None
    return parse_public(data, where=str(path))


def parse_public(data: bytes, *, where: str) -> Ed25519PublicKey:
    """A public key in PEM; UserError."""
    try:
        key = serialization.load_pem_public_key(data) if len(data) <= MAX_KEY else None
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError("is no public Ed25519 key in PEM", where=where)
    return key


def verify(manifest: bytes, signatures: str, keys: Sequence[Ed25519PublicKey], needed: int = 1) -> None:
    """Check signatures (base64, blanks between them) of a manifest's bytes.

    UserError when fewer than ``needed`` different ones of these keys have made one.
    """
    if not keys:
        raise UserError(
            "this system trusts no key, so it accepts no release",
            where=WHERE,
            hint="install an image that was built with a release key",
        )
    found = parse_signatures(signatures)
    if not found:
        raise UserError("the release is not signed", where=WHERE, hint="sign it: nix run .#sign")
    different = {key.public_bytes_raw(): key for key in keys}.values()
    signers = sum(any(_has_signed(key, manifest, raw) for raw in found) for key in different)
    if not signers:
        raise UserError(
            f"is of none of the {len(keys)} keys that this system trusts",
            where=WHERE,
            hint="the release is altered, or signed with another key",
        )
    if signers < needed:
        raise UserError(
            f"{signers} of the {len(different)} keys that this system trusts have signed the release, "
            f"{needed} must",
            where=WHERE,
            hint="another builder adds a signature: nix run .#sign",
        )


def parse_signatures(text: str) -> tuple[bytes, ...]:
    """Signatures in base64 with blanks between them; UserError."""
    words = text.split()
    if len(words) > MAX_KEYS:
        raise UserError(f"has {len(words)} signatures, at most {MAX_KEYS} are read", where=WHERE)
    try:
        return tuple(base64.b64decode(word, validate=True) for word in words)
    except ValueError:
        raise UserError("is no base64", where=WHERE) from None


def _has_signed(key: Ed25519PublicKey, manifest: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, to_be_signed(manifest))
    except InvalidSignature:
        return False
    return True


class ReleaseKey(Protocol):
    """A private Ed25519 key, in memory or elsewhere (``talos.pki.signer``)."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature of the bytes."""
        ...


def sign(manifest: bytes, key: ReleaseKey) -> str:
    """The signature of a manifest's bytes, in base64."""
    return base64.b64encode(key.sign(to_be_signed(manifest))).decode()


def to_be_signed(manifest: bytes) -> bytes:
    """The bytes that a signature of a manifest is of."""
    return _CONTEXT + manifest


def load_private(path: Path) -> Ed25519PrivateKey:
    """A private key in PEM; UserError."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(path)) from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(
            "is no private Ed25519 key in PEM", where=str(path), hint="make one: nix run .#keygen"
        )
    return key


def format_private(key: Ed25519PrivateKey) -> bytes:
    """A private key in PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def format_public(key: Ed25519PublicKey) -> bytes:
    """A public key in PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
