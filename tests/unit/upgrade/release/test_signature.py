"""Signatures of releases: whose are accepted, how many, and which files are keys."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from talos.system.errors import UserError
from talos.upgrade.release.signature import (
    format_private,
    format_public,
    load_keys,
    load_needed,
    load_private,
    load_public,
    sign,
    verify,
)

MANIFEST = b"a manifest"
KEY = Ed25519PrivateKey.generate()
PUBLIC = format_public(KEY.public_key())


def test_signatures() -> None:
    ours, foreign = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    keys = [KEY.public_key(), ours.public_key()]
    signature = sign(MANIFEST, ours)
    verify(MANIFEST, signature, keys)
    verify(MANIFEST, f"{sign(MANIFEST, foreign)}\n {signature}\n", keys)
    verify(MANIFEST, " ".join([signature] * 16), keys)
    for manifest, signatures, problem in (
        (MANIFEST, "", "is not signed"),
        (MANIFEST, sign(MANIFEST, foreign), "of none of the 2 keys"),
        (b"another manifest", signature, "of none of the 2 keys"),
        (MANIFEST, "?", "is no base64"),
        (MANIFEST, "\u00e4", "is no base64"),
        (MANIFEST, " ".join([signature] * 17), "has 17 signatures, at most 16"),
    ):
        with pytest.raises(UserError, match=f"release signature: .*{problem}"):
            verify(manifest, signatures, keys)
    with pytest.raises(UserError, match="trusts no key"):
        verify(MANIFEST, signature, [])


def test_so_many_different_keys_must_have_signed() -> None:
    other = Ed25519PrivateKey.generate()
    keys = [KEY.public_key(), other.public_key(), KEY.public_key()]
    twice = f"{sign(MANIFEST, KEY)} {sign(MANIFEST, KEY)}"
    verify(MANIFEST, f"{twice} {sign(MANIFEST, other)}", keys, 2)
    with pytest.raises(UserError, match=r"1 of the 2 keys that this system trusts have signed .*, 2 must"):
        verify(MANIFEST, twice, keys, 2)


def test_a_signature_is_that_of_all_versions_and_of_nothing_else() -> None:
    KEY.public_key().verify(b64decode(sign(MANIFEST, KEY)), b"talos release v1\n" + MANIFEST)
    other = b64encode(KEY.sign(MANIFEST)).decode()
    with pytest.raises(UserError, match="of none of the 1 keys"):
        verify(MANIFEST, other, [KEY.public_key()])


@pytest.mark.parametrize("text", ["", "0", "17", "016", "+1", "1.0", "\u0661", "two", "1" * 5000])
def test_a_number_of_signatures_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "signatures").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"signatures: '.{0,20}' is no number from 1 to 16"):
        load_needed(tmp_path)


def test_so_many_signatures_as_a_file_has_are_needed(tmp_path: Path) -> None:
    assert load_needed(tmp_path) == 1
    for number in (1, 2, 16):
        (tmp_path / "signatures").write_text(f"{number}\n", encoding="ascii")
        assert load_needed(tmp_path) == number
    (tmp_path / "signatures").unlink()
    (tmp_path / "signatures").mkdir()
    with pytest.raises(UserError, match="signatures: Is a directory"):
        load_needed(tmp_path)


def test_the_keys_of_a_folder(tmp_path: Path) -> None:
    assert load_keys(tmp_path / "none") == ()
    (tmp_path / "one.key").write_bytes(format_private(KEY))
    for number in range(16):
        (tmp_path / f"{number}.pub").write_bytes(PUBLIC)
    assert load_keys(tmp_path) == (KEY.public_key(),) * 16
    (tmp_path / "two.pub").write_bytes(PUBLIC)
    with pytest.raises(UserError, match="more than 16 keys"):
        load_keys(tmp_path)


@pytest.mark.parametrize(
    ("data", "is_key"),
    [
        (PUBLIC.rjust(4096, b"\n"), True),
        (PUBLIC.ljust(4096, b"\n"), True),
        (PUBLIC.ljust(4097, b"\n"), False),
        (b"hello", False),
        (format_private(KEY), False),
        (
            X25519PrivateKey.generate()
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            False,
        ),
    ],
)
def test_a_public_key_is_a_small_file_with_one_of_ed25519(
    tmp_path: Path, data: bytes, *, is_key: bool
) -> None:
    path = tmp_path / "one.pub"
    path.write_bytes(data)
    if is_key:
        assert load_public(path) == KEY.public_key()
        return
    with pytest.raises(UserError, match=r"one\.pub: is no public Ed25519 key"):
        load_keys(tmp_path)


def test_a_private_key_is_one_of_ed25519_without_a_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "one.key"
    path.write_bytes(format_private(KEY))
    assert load_private(path).public_key() == KEY.public_key()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    sealed = KEY.private_bytes(*form, serialization.BestAvailableEncryption(b"x"))
    exchange = X25519PrivateKey.generate().private_bytes(*form, serialization.NoEncryption())
    for data in (PUBLIC, sealed, exchange):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"one\.key: is no private Ed25519 key"):
            load_private(path)


@pytest.mark.parametrize("load", [load_public, load_private])
def test_a_key_that_can_not_be_read_is_named(tmp_path: Path, load: Callable[[Path], object]) -> None:
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/none: No such file or directory")):
        load(tmp_path / "none")
