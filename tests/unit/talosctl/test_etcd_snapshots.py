"""Snapshots of etcd in files: whole ones take their names, encrypted ones are for the owner's key."""

import hashlib
import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, override

import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
from talos.api.machine import machine_pb2 as machine
from talos.client.snapshot import SnapshotHash
from talos.system.errors import UserError
from talos.talosctl.output.age import check_recipients, decrypt, encrypt, load_identities
from talos.talosctl.output.transfer import showing_transfer

AGE: Any = importlib.import_module("pyrage")
DATABASE = bytes(range(256)) * 1024
SNAPSHOT = DATABASE + hashlib.sha256(DATABASE).digest()


@pytest.fixture
def key(tmp_path: Path) -> Any:
    """The owner's private key, which is in the file ``key``, as age-keygen writes it."""
    identity = AGE.x25519.Identity.generate()
    (tmp_path / "key").write_text(f"# created: today\n# public key: {identity.to_public()}\n{identity}\n")
    return identity


def encrypt_for(key: Any, data: bytes) -> bytes:
    target = io.BytesIO()
    encrypt(io.BytesIO(data), target, [str(key.to_public())], where="recipients")
    return target.getvalue()


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "end"), [(0, ""), (3 << 20, " of 3.1 MB")])
def test_a_terminal_shows_how_far_it_is(total: int, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with showing_transfer("10.0.0.2", total) as note:
        for _ in range(6):
            note(512 << 10)
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines == ["", *(f"10.0.0.2: {size} MB{end}" for size in ("1.0", "2.1", "3.1")), ""]
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    with showing_transfer("10.0.0.2") as note:
        note(5 << 20)
    assert plain.getvalue() == ""


@pytest.mark.parametrize("size", [31, 32, 33, 5000, len(SNAPSHOT)])
def test_a_snapshot_in_pieces_is_whole_at_its_end_only(size: int) -> None:
    found = SnapshotHash()
    for start in range(0, len(SNAPSHOT), size):
        assert not found.is_whole
        found.update(SNAPSHOT[start : start + size])
    assert (found.is_whole, found.size) == (True, len(SNAPSHOT))
    found.update(b"x")
    assert not found.is_whole


def test_a_snapshot_is_saved_when_it_is_whole(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    path = tmp_path / "db.snapshot"
    pieces = [Data(bytes=SNAPSHOT[start : start + 5000]) for start in range(0, len(SNAPSHOT), 5000)]
    node.on("/machine.MachineService/EtcdSnapshot", machine.EtcdSnapshotRequest, pieces[:-1], stream=True)
    result = talosctl("-n", "10.0.0.2", "etcd", "snapshot", str(path))
    assert (result.code, "the snapshot is not whole" in result.err) == (1, True)
    assert list(tmp_path.glob("db*")) == []
    node.on("/machine.MachineService/EtcdSnapshot", machine.EtcdSnapshotRequest, pieces, stream=True)
    result = talosctl("-n", "10.0.0.2", "etcd", "snapshot", str(path))
    assert (result.code, path.read_bytes()) == (0, SNAPSHOT)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_snapshot_is_decrypted(talosctl: Client, key: Any, tmp_path: Path) -> None:
    source, path = tmp_path / "etcd.age", tmp_path / "db.snapshot"
    source.write_bytes(encrypt_for(key, SNAPSHOT))
    result = talosctl("etcd", "decrypt-snapshot", "-i", str(tmp_path / "key"), str(source), str(path))
    assert (result.code, path.read_bytes()) == (0, SNAPSHOT), result.err


def test_an_ssh_key_is_a_key(talosctl: Client, tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
    public = private.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    (tmp_path / "id").write_bytes(text)
    with (tmp_path / "etcd.age").open("wb") as file:
        encrypt(io.BytesIO(SNAPSHOT), file, [public.decode()], where="recipients")
    argv = ("-i", str(tmp_path / "id"), str(tmp_path / "etcd.age"), str(tmp_path / "db"))
    result = talosctl("etcd", "decrypt-snapshot", *argv)
    assert (result.code, (tmp_path / "db").read_bytes()) == (0, SNAPSHOT), result.err


CHANGES: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:-1], "is damaged, cut off, or no age file"),
    (lambda data: data[:70_000], "is damaged, cut off, or no age file"),
    (
        lambda data: data[:70_000] + bytes([data[70_000] ^ 1]) + data[70_001:],
        "is damaged, cut off, or no age file",
    ),
    (lambda _: SNAPSHOT, "is damaged, cut off, or no age file"),
    (lambda _: b"", "is damaged, cut off, or no age file"),
    (lambda _: encrypt_for(AGE.x25519.Identity.generate(), SNAPSHOT), "is not for the keys in"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_what_is_no_snapshot_of_the_owner_is_named(
    talosctl: Client, key: Any, tmp_path: Path, change: Any, reason: str
) -> None:
    source, path = tmp_path / "etcd.age", tmp_path / "db.snapshot"
    source.write_bytes(change(encrypt_for(key, SNAPSHOT)))
    result = talosctl("etcd", "decrypt-snapshot", "-i", str(tmp_path / "key"), str(source), str(path))
    assert result.code == 1
    assert result.err.startswith(f"error: {source}: {reason}")
    assert list(tmp_path.glob("db*")) == []


def test_what_is_encrypted_has_to_be_a_snapshot(talosctl: Client, key: Any, tmp_path: Path) -> None:
    source, path = tmp_path / "etcd.age", tmp_path / "db.snapshot"
    source.write_bytes(encrypt_for(key, SNAPSHOT[:-1]))
    result = talosctl("etcd", "decrypt-snapshot", "-i", str(tmp_path / "key"), str(source), str(path))
    assert (result.code, "the snapshot is not whole" in result.err) == (1, True)
    assert list(tmp_path.glob("db*")) == []
    result = talosctl(
        "etcd", "decrypt-snapshot", "-i", str(tmp_path / "key"), str(tmp_path / "no"), str(path)
    )
    assert result.err.startswith(f"error: {tmp_path / 'no'}: No such file")


@pytest.mark.parametrize("text", ["", "# a comment\n", "AGE-SECRET-KEY-1NONE", "-----BEGIN nonsense", "\xff"])
def test_files_without_a_private_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="has no private key of age"):
        load_identities(tmp_path / "key")


def test_recipients_are_public_keys(key: Any) -> None:
    check_recipients([str(key.to_public())], where="recipients")
    for text in ("", "age1nonsense", "ssh-ed25519 x", str(key)):
        with pytest.raises(UserError, match=r"recipients: .*is no recipient"):
            check_recipients([text], where="recipients")


def test_errors_of_streams_are_their_own(key: Any, tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise OSError(28, "No space left on device")

    class Lost(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise UserError("the node is gone")

    recipient = str(key.to_public())
    with pytest.raises(OSError, match="No space left"):
        encrypt(io.BytesIO(SNAPSHOT), Full(), [recipient], where="")
    with pytest.raises(UserError, match="the node is gone"):
        encrypt(Lost(), io.BytesIO(), [recipient], where="")
    with pytest.raises(OSError, match="No space left"):
        decrypt(io.BytesIO(encrypt_for(key, SNAPSHOT)), Full(), tmp_path / "key", where="")
