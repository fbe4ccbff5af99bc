"""Who signs: a private key in a file, in a PKCS #11 token, or behind a program.

    open_signer("pkcs11:token=owner;object=release", public, "release.pub") -> Signer
    signer.sign(data) -> bytes

RSA signs by PKCS #1 v1.5 with SHA-256 (RFC 8017, section 8.2), Ed25519 the bytes themselves (RFC 8032). A
program gets the bytes to be signed, not their digest, on its standard input, and writes the signature as it
is to its standard output. What a token or a program answers is a signature only if it is one of the key that
was expected.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from talos.pki import pkcs11
from talos.pki.keys import parse_key
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.system.process import describe_exit, run_filter

COMMAND = "command:"
"""What precedes a program and its arguments."""
TIMEOUT = 120.0
"""Seconds for a program, whose device may wait for a touch."""

type SignerKey = RSAPublicKey | Ed25519PublicKey


class Signer(Protocol):
    """A key that signs."""

    @property
    def public(self) -> SignerKey:
        """Its public half."""
        ...

    def sign(self, data: bytes) -> bytes:
        """A signature of the public key. UserError."""
        ...


@dataclass(frozen=True, slots=True)
class FileSigner:
    """A key that was read from a file."""

    key: RSAPrivateKey | Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> SignerKey:
        """Its public half."""
        return self.key.public_key()

    def sign(self, data: bytes) -> bytes:
        """A signature of the public key."""
        if isinstance(self.key, RSAPrivateKey):
            return self.key.sign(data, PKCS1v15(), SHA256())
        return self.key.sign(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSigner:
    """A key that is elsewhere. ``where`` names it in errors, ``source`` the file of its public half."""

    public: SignerKey
    source: str
    where: str
    request: Callable[[bytes], bytes]

    def sign(self, data: bytes) -> bytes:
        """A signature of the public key. UserError."""
        answer = self.request(data)
        if not _has_signed(self.public, answer, data):
            kind = "PKCS #1 v1.5 with SHA-256" if isinstance(self.public, RSAPublicKey) else "Ed25519"
            raise UserError(
                f"its answer of {len(answer)} bytes is no signature of the key of {self.source}",
                where=self.where,
                hint=f"another key signs, or not by {kind} of the bytes themselves",
            )
        return answer


def is_remote(key: str) -> bool:
    """Whether a key is in no file, so that its public half has to be known from elsewhere."""
    return key.startswith((COMMAND, pkcs11.SCHEME))


def open_signer(
    key: str, public: SignerKey, source: str, environment: Mapping[str, str] = os.environ
) -> Signer:
    """Who signs with the private half of a key, which is ``pkcs11:…``, ``command:…`` or a file. UserError.

    ``source`` is the file that the public half is from.
    """
    if key.startswith(pkcs11.SCHEME):
        token = pkcs11.parse_uri(key, environment)
        where, request = token.where, partial(token.sign, public=public)
    elif key.startswith(COMMAND):
        argv = _split(key.removeprefix(COMMAND))
        where = f"{COMMAND}{argv[0]}"
        request = partial(run_signer, argv, where, environment)
    else:
        signer = read_signer(key)
        if signer.public != public:
            raise UserError(f"does not belong to {source}", where=key)
        return signer
    return RemoteSigner(public=public, source=source, where=where, request=request)


def read_signer(path: Path | str) -> Signer:
    """A key's file in PEM. UserError."""
    key = parse_key(read_file(path), where=str(path))
    if not isinstance(key, RSAPrivateKey | Ed25519PrivateKey):
        raise UserError("is no RSA or Ed25519 key", where=str(path))
    return FileSigner(key)


def run_signer(
    argv: Sequence[str], where: str, environment: Mapping[str, str], data: bytes, timeout: float = TIMEOUT
) -> bytes:
    """What a program answers; UserError that begins with ``where`` when it fails."""
    try:
        done = run_filter(argv, data, env=environment, timeout=timeout)
    except UserError as error:
        raise UserError(error.message, where=where, hint=error.hint) from None
    if done.code != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "it gives no reason"
        raise UserError(f"failed with {describe_exit(done.code)}: {reason}", where=where)
    return done.stdout


def _split(command: str) -> Sequence[str]:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise UserError(str(error).lower(), where=f"{COMMAND}{command}") from None
    if not argv:
        raise UserError("names no program", where=COMMAND)
    return argv


def _has_signed(public: SignerKey, signature: bytes, data: bytes) -> bool:
    try:
        if isinstance(public, RSAPublicKey):
            public.verify(signature, data, PKCS1v15(), SHA256())
        else:
            public.verify(signature, data)
    except InvalidSignature:
        return False
    return True
