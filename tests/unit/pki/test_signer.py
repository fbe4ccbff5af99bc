"""Keys that a program signs with: its answer is a signature of the expected key, or an error in one line."""

import shlex
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from talos.pki.keys import key_to_pem
from talos.pki.signer import FileSigner, open_signer, run_signer
from talos.system.errors import UserError

DATA = b"what is to be signed"
PROGRAM = """
import pathlib, sys
from talos.pki.signer import read_signer
sys.stdout.buffer.write(read_signer(sys.argv[1]).sign(sys.stdin.buffer.read()))
"""
"""What plays a service that has the key."""


def run(script: str, *argv: str) -> str:
    """A key behind a script of Python."""
    return f"command:{shlex.join([sys.executable, '-c', script, *argv])}"


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_a_program_signs(tmp_path: Path, kind: str) -> None:
    key = generate_private_key(65537, 2048) if kind == "rsa" else Ed25519PrivateKey.generate()
    path, file = tmp_path / "a key.pem", FileSigner(key)
    path.write_bytes(key_to_pem(key))
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert open_signer(run(PROGRAM, str(path)), file.public, "a.pub", environment).sign(DATA) == file.sign(
        DATA
    )
    other = Ed25519PrivateKey.generate().public_key()
    with pytest.raises(UserError, match=r"is no signature of the key of a\.pub \(another key signs, or "):
        open_signer(run(PROGRAM, str(path)), other, "a.pub", environment).sign(DATA)
    with pytest.raises(UserError, match=r"a key.pem: does not belong to a\.pub"):
        open_signer(str(path), other, "a.pub")


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("command:/nonsense -a", "command:/nonsense: /nonsense can't be started: No such file or directory"),
        ("command:sign 'a", "command:sign 'a: no closing quotation"),
        ("command:", "command:: names no program"),
        (
            run("import sys; sys.exit('first\\nthe vault is sealed')"),
            f"command:{sys.executable}: failed with exit code 1: the vault is sealed",
        ),
        (run("raise SystemExit(3)"), "failed with exit code 3: it gives no reason"),
        (run(""), "its answer of 0 bytes is no signature of the key of a.pub"),
        (run("print('x' * 63)"), "its answer of 64 bytes is no signature of the key of a.pub"),
    ],
)
def test_a_program_that_signs_nothing(key: str, error: str) -> None:
    with pytest.raises(UserError) as caught:
        open_signer(key, Ed25519PrivateKey.generate().public_key(), "a.pub", {}).sign(DATA)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_without_an_end() -> None:
    argv = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(UserError, match=r"^command:wait: no end after 0.1 s$"):
        run_signer(argv, "command:wait", {}, DATA, timeout=0.1)
