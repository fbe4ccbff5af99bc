"""Files for the keys of others: age's format, https://age-encryption.org/v1.

Streams are encrypted in pieces of 64 KiB, so any size takes the same memory.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from talos.system.errors import UserError
from talos.system.files import read_file

_SSH, _PRIVATE = "ssh-", "AGE-SECRET-KEY-"
_SSH_KEY = b"-----BEGIN"


class Source(Protocol):
    """What is read."""

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes, none at the end."""
        ...


class Target(Protocol):
    """What is written to."""

    def write(self, data: bytes, /) -> object:
        """Write all of it."""
        ...


class _ErrorCapture:
    """A stream whose error is kept: the library reports it as a text."""

    def __init__(self, stream: Any, errors: list[Exception]) -> None:
        self._stream, self._errors = stream, errors

    def read(self, size: int = -1) -> bytes:
        return self._call(self._stream.read, size)

    def write(self, data: bytes) -> int:
        self._call(self._stream.write, data)
        return len(data)

    def flush(self) -> None:
        """Nothing: the owner of the stream flushes it."""

    def _call(self, method: Callable[[Any], Any], argument: object) -> Any:
        try:
            return method(argument)
        except Exception as error:
            self._errors.append(error)
            raise


def encrypt(source: Source, target: Target, recipients: Sequence[str], *, where: str) -> None:
    """Encrypt a stream for public keys; UserError for one that is none, and what the streams raise."""
    parsed, errors = [_parse_recipient(text, where) for text in recipients], list[Exception]()
    age = _age()
    try:
        age.encrypt_io(_ErrorCapture(source, errors), _ErrorCapture(target, errors), parsed)
    except (age.EncryptError, OSError) as error:
        raise (errors[0] if errors else error) from None


def decrypt(source: Source, target: Target, identities: Path, *, where: str) -> None:
    """Decrypt a stream with a file of private keys; UserError, and what the streams raise.

    What is written before the end of a damaged stream is right, and not all.
    """
    parsed, errors, age = load_identities(identities), list[Exception](), _age()
    try:
        age.decrypt_io(_ErrorCapture(source, errors), _ErrorCapture(target, errors), parsed)
    except (age.DecryptError, OSError) as error:
        if errors:
            raise errors[0] from None
        if "No matching keys" in str(error):
            hint = "name the file with the private key of one of its recipients"
            raise UserError(f"is not for the keys in {identities}", where=where, hint=hint) from None
        hint = "fetch it anew; age files begin with age-encryption.org/v1"
        raise UserError(f"is damaged, cut off, or no age file: {error}", where=where, hint=hint) from None


def check_recipients(recipients: Sequence[str], *, where: str) -> None:
    """UserError when one is no public key."""
    for text in recipients:
        _parse_recipient(text, where)


def load_identities(path: Path) -> list[object]:
    """The private keys of a file, age's own or one of SSH; UserError."""
    age, text = _age(), read_file(path)
    try:
        if text.lstrip().startswith(_SSH_KEY):
            return [age.ssh.Identity.from_buffer(text)]
        lines = [line.strip() for line in text.decode().splitlines()]
        found = [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (age.IdentityError, ValueError):
        found = []
    if not found:
        hint = "use a file of age-keygen, or an SSH key without a passphrase"
        raise UserError("has no private key of age", where=str(path), hint=hint)
    return found


def _parse_recipient(text: str, where: str) -> object:
    age = _age()
    kind = age.ssh if text.startswith(_SSH) else age.x25519
    try:
        return kind.Recipient.from_str(text)
    except age.RecipientError:
        shown = "a private key" if text.upper().startswith(_PRIVATE) else f'"{text}"'
        hint = "use age1… or an SSH public key"
        raise UserError(f"{shown} is no recipient", where=where, hint=hint) from None


def _age() -> Any:
    # Rust without type stubs, loaded by who encrypts only.
    return importlib.import_module("pyrage")
