"""A release is laid out with notes, hashes and a signature, or refused with the remedy before a build."""

import gzip
import hashlib
import shlex
import sys
import tarfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from dist import KEYLESS, DistError, find_notes, main
from tests.unit.pki.test_signer import PROGRAM

from talos.upgrade.release.signature import format_private, format_public

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- new\n\n## v1.2.0 - 2026-01-01\n\n- old\n\n## v1.1.0\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of version v1.3.0-alpha.0, with things that were built."""
    (tmp_path / "pkgs/keys").mkdir(parents=True)
    (tmp_path / "VERSION").write_text("v1.3.0-alpha.0\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "netboot").mkdir()
    (tmp_path / "netboot/vmlinuz").write_bytes(b"kernel")
    (tmp_path / "disk").write_bytes(b"disk" * 1000)
    (tmp_path / "talosctl").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "talosctl").chmod(0o755)
    return tmp_path


def add_key(tree: Path, *, trusted: bool = True) -> tuple[Path, Ed25519PrivateKey]:
    """A release key."""
    key = Ed25519PrivateKey.generate()
    path = tree / "release.key"
    path.write_bytes(format_private(key))
    if trusted:
        (tree / "pkgs/keys/a.pub").write_bytes(format_public(key.public_key()))
    return path, key


def run(tree: Path, *argv: str) -> int:
    """The command, on this repository."""
    files = [f"talos-@-netboot.tar={tree}/netboot", f"disk.raw.gz={tree}/disk", f"talosctl={tree}/talosctl"]
    return main(["--tree", str(tree), "--out", str(tree / "out"), *argv, *files])


def test_release_with_a_key_behind_a_command(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    path, key = add_key(tree)
    argv = ["--key", f"command:{shlex.join([sys.executable, '-c', PROGRAM, str(path)])}"]
    assert run(tree, *argv) == 1
    assert "name its public half, RELEASE_PUBLIC=" in capsys.readouterr().err
    assert run(tree, *argv, "--public-key", str(tree / "pkgs/keys/a.pub")) == 0
    out = tree / "out/v1.3.0-alpha.0"
    key.public_key().verify((out / "SHA256SUMS.sig").read_bytes(), (out / "SHA256SUMS").read_bytes())


def test_release_with_a_key(tree: Path) -> None:
    path, key = add_key(tree)
    assert run(tree, "--version", "v1.3.0-alpha.0", "--key", str(path)) == 0
    out = tree / "out/v1.3.0-alpha.0"
    sums = (out / "SHA256SUMS").read_bytes()
    public = load_pem_public_key((out / "release.pub").read_bytes())
    assert public == key.public_key()
    key.public_key().verify((out / "SHA256SUMS.sig").read_bytes(), sums)
    listed = {name: digest for digest, name in (line.split("  ") for line in sums.decode().splitlines())}
    assert listed.keys() == {
        "NOTES.md",
        "disk.raw.gz",
        "release.pub",
        "talos-v1.3.0-alpha.0-netboot.tar",
        "talosctl",
    }
    for name, digest in listed.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert (out / "talosctl").stat().st_mode & 0o111
    assert gzip.decompress((out / "disk.raw.gz").read_bytes()) == b"disk" * 1000
    with tarfile.open(out / "talos-v1.3.0-alpha.0-netboot.tar") as archive:
        assert archive.getnames() == ["talos-v1.3.0-alpha.0-netboot/vmlinuz"]
    assert "- new" in (out / "NOTES.md").read_text()


def test_release_without_a_key_says_so(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree) == 0
    out = tree / "out/v1.3.0-alpha.0"
    assert KEYLESS in (out / "NOTES.md").read_text()
    assert not (out / "SHA256SUMS.sig").exists()
    assert capsys.readouterr().err == f"dist: WARNING: {KEYLESS}\n"


def test_two_releases_are_the_same_bytes(tree: Path) -> None:
    assert run(tree) == 0
    (tree / "out").rename(tree / "first")
    assert run(tree) == 0
    sums = [(tree / name / "v1.3.0-alpha.0/SHA256SUMS").read_text() for name in ("first", "out")]
    assert sums[0] == sums[1]


def test_what_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*argv: str) -> str:
        assert run(tree, "--check", *argv) == 1
        assert not (tree / "out").exists()
        return capsys.readouterr().err

    assert "VERSION=v9, but the file VERSION has v1.3.0-alpha.0" in error("--version", "v9")
    path, _ = add_key(tree, trusted=False)
    assert "its public half is not in pkgs/keys" in error("--key", str(path))
    assert "No such file or directory" in error("--key", str(tree / "none"))
    path.write_text("nonsense")
    assert "is no private Ed25519 key in PEM" in error("--key", str(path))
    add_key(tree)
    assert "name one, RELEASE_KEY=~/release.key" in error()


def test_a_folder_that_is_there_is_kept(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree) == 0
    assert run(tree) == 1
    assert "is there already" in capsys.readouterr().err


def test_notes() -> None:
    assert find_notes(CHANGELOG, "v1.2.0") == "- old"
    assert find_notes(CHANGELOG, "v1.3.0-alpha.0") == "- new"
    for version in ("v1.3.0", "v1.1.0"):
        with pytest.raises(DistError, match='there is no section "## v'):
            find_notes(CHANGELOG, version)
