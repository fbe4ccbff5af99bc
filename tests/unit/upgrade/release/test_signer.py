"""Releases signed by a command, as by a module that keeps its key."""

import shlex
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.upgrade.release.archive import read_annotations, read_archive
from talos.upgrade.release.main import main
from talos.upgrade.release.signature import format_private, format_public, load_keys, verify

from .releases import make_release

TOKEN = """
import base64, sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
_, key, data, answer, form = sys.argv
signature = load_pem_private_key(open(key, "rb").read(), None).sign(open(data, "rb").read())
open(answer, "wb").write(signature if form == "raw" else base64.encodebytes(signature))
"""
"""What plays a module with a key."""
WRITE = "import sys; open(sys.argv[3], 'wb').write(bytes(int(sys.argv[1])))"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    private = Ed25519PrivateKey.generate()
    path = tmp_path / "keys/one.key"
    path.parent.mkdir()
    path.write_bytes(format_private(private))
    path.with_suffix(".pub").write_bytes(format_public(private.public_key()))
    return path


def run(script: str, *argv: str) -> str:
    """A command that runs a script of Python."""
    return shlex.join([sys.executable, "-c", script, *argv])


def sign(archive: Path, key: Path, command: str) -> int:
    public = key.with_suffix(".pub")
    return main(["sign", "--command", command, "--public-key", str(public), str(archive)])


@pytest.mark.parametrize("form", ["raw", "base64"])
def test_a_command_signs_a_release(tmp_path: Path, key: Path, form: str) -> None:
    archive = make_release(tmp_path)
    assert sign(archive, key, run(TOKEN, str(key), "{data}", "{signature}", form)) == 0
    signed = archive.with_name(f"{archive.stem}.signed.tar")
    data, signature = read_annotations(read_archive(signed)[1]["annotations"], "archive")
    verify(data, signature, load_keys(key.parent))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("sign {data}", "--command: has no {signature}"),
        ("sign {signature}", "--command: has no {data}"),
        ("sign '{data} {signature}", "--command: no closing quotation"),
        ("/nonsense {data} {signature}", "/nonsense is not installed"),
        (run("raise SystemExit(1)", "{data}{signature}"), "failed with exit code 1"),
        (run("", "{data}{signature}"), "it has not written {signature}"),
        (run(WRITE, "12", "{data}", "{signature}"), "it has written 12 bytes that are no signature"),
        (run(WRITE, "64", "{data}", "{signature}"), "its signature is not of the key"),
    ],
)
def test_a_command_that_signs_nothing(
    tmp_path: Path, key: Path, command: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = make_release(tmp_path)
    assert sign(archive, key, command) == 1
    assert text in capsys.readouterr().err
    assert not archive.with_name(f"{archive.stem}.signed.tar").exists()


def test_a_command_without_a_public_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sign", "--command", "sign {data} {signature}", str(tmp_path / "release.tar")])
    assert "--public-key" in capsys.readouterr().err
