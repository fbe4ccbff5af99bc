"""Who signs a release: a key in a file, or a command of the user's that has another do it.

A hardware security module or a key management service never gives its key away: the command hands it what is
to be signed, and writes what it answered.
"""

import base64
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from talos.system.errors import UserError
from talos.system.process import run_command
from talos.upgrade.release.signature import load_private, load_public, sign, to_be_signed, verify

SIGNATURE_SIZE = 64
"""Bytes of an Ed25519 signature (RFC 8032)."""
MAX_ANSWER = 1024
"""Bytes of a command's answer that are read."""
DATA, SIGNATURE = "{data}", "{signature}"
"""What a command has in place of the files' paths."""
OPTION = "--command"


def sign_by_key(manifest: bytes, key: Path) -> str:
    """The signature of a manifest, in base64. UserError."""
    private = load_private(key)
    signature = sign(manifest, private)
    verify(manifest, signature, [private.public_key()])
    return signature


def sign_by_command(manifest: bytes, command: str, public: Path) -> str:
    """The signature of a manifest that a command writes, in base64; it is one of the public key.

    UserError when the command fails, or its answer is none.
    """
    key = load_public(public)
    with TemporaryDirectory() as folder:
        data, answer = Path(folder, "data"), Path(folder, "signature")
        data.write_bytes(to_be_signed(manifest))
        run_command(_make_argv(command, data, answer))
        raw = _read_answer(answer)
    signature = base64.b64encode(raw).decode()
    try:
        verify(manifest, signature, [key])
    except UserError:
        raise UserError(f"its signature is not of the key {public}", where=OPTION) from None
    return signature


def _make_argv(command: str, data: Path, answer: Path) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(str(error).lower(), where=OPTION) from None
    for name in (DATA, SIGNATURE):
        if not any(name in word for word in words):
            raise UserError(
                f"has no {name}",
                where=OPTION,
                hint=f"{DATA} is the file that is to be signed, {SIGNATURE} the one that the command writes",
            )
    return [word.replace(DATA, str(data)).replace(SIGNATURE, str(answer)) for word in words]


def _read_answer(path: Path) -> bytes:
    """The bytes of a signature, which a command has written as they are or in base64. UserError."""
    try:
        with path.open("rb") as file:
            answer = file.read(MAX_ANSWER)
    except FileNotFoundError:
        raise UserError(f"it has not written {SIGNATURE}", where=OPTION) from None
    if len(answer) == SIGNATURE_SIZE:
        return answer
    try:
        raw = base64.b64decode(b"".join(answer.split()), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != SIGNATURE_SIZE:
        raise UserError(
            f"it has written {len(answer)} bytes that are no signature",
            where=OPTION,
            hint=f"Ed25519 signatures are {SIGNATURE_SIZE} bytes, as they are or in base64",
        )
    return raw
