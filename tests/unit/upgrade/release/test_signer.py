"""Releases signed with keys that no file has: behind a command, and in a token."""

import shlex
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.pki.test_signer import PROGRAM
from tests.unit.pki.tokens import make_token

from talos.upgrade.release.archive import read_annotations, read_archive
from talos.upgrade.release.main import main
from talos.upgrade.release.signature import format_private, format_public, load_keys, verify

from .releases import make_release


@pytest.fixture
def private() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def path(tmp_path: Path, private: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its file, with the public one beside it."""
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    path = tmp_path / "keys/one.key"
    path.parent.mkdir()
    path.write_bytes(format_private(private))
    path.with_suffix(".pub").write_bytes(format_public(private.public_key()))
    return path


def check(archive: Path, keys: Path) -> None:
    """That the keys of a folder have signed the copy of an archive."""
    signed = archive.with_name(f"{archive.stem}.signed.tar")
    data, signature = read_annotations(read_archive(signed)[1]["annotations"], "archive")
    verify(data, signature, load_keys(keys))


def sign(archive: Path, key: str, public: Path) -> int:
    return main(["sign", "--key", key, "--public-key", str(public), str(archive)])


def run(script: str, *argv: str) -> str:
    return f"command:{shlex.join([sys.executable, '-c', script, *argv])}"


def test_a_command_signs_a_release(tmp_path: Path, path: Path) -> None:
    archive = make_release(tmp_path)
    assert sign(archive, run(PROGRAM, str(path)), path.with_suffix(".pub")) == 0
    check(archive, path.parent)


def test_a_token_signs_a_release(
    tmp_path: Path, path: Path, private: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_token(tmp_path, monkeypatch).add_key("release", "01", private)
    archive = make_release(tmp_path)
    assert sign(archive, "pkcs11:token=owner;object=release", path.with_suffix(".pub")) == 0
    check(archive, path.parent)


def test_a_key_that_signs_nothing(tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, public = make_release(tmp_path), path.with_suffix(".pub")
    for key, text in (
        (
            run("import sys; sys.exit('it is sealed')"),
            "failed with exit code 1: it is sealed",
        ),
        (run("print('x' * 63)"), "its answer of 64 bytes is no signature of the key"),
        ("pkcs11:token=owner", "names no key"),
    ):
        assert sign(archive, key, public) == 1
        shown = capsys.readouterr().err
        assert text in shown
        assert shown.count("\n") == 1
    other = tmp_path / "other.pub"
    other.write_bytes(format_public(Ed25519PrivateKey.generate().public_key()))
    assert sign(archive, str(path), other) == 1
    assert f"one.key: does not belong to {other}" in capsys.readouterr().err
    assert main(["sign", "--key", "command:sign", str(archive)]) == 1
    assert "--key: which key is it? (--public-key has its file)" in capsys.readouterr().err
    assert not archive.with_name(f"{archive.stem}.signed.tar").exists()
