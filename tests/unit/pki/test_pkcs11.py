"""Keys of a token: found by a URI, and what is refused. SoftHSM is the token."""

import os
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from tests.unit.pki.tokens import MODULE, PIN, make_token

from talos.pki.signer import FileSigner, open_signer
from talos.system.errors import UserError

DATA = b"what is to be signed"

type Environment = Mapping[str, str]


@pytest.fixture(scope="module")
def rsa() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def ed25519() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module", autouse=True)
def token(
    tmp_path_factory: pytest.TempPathFactory, rsa: RSAPrivateKey, ed25519: Ed25519PrivateKey
) -> Generator[None]:
    """It has two keys with the label "twin"."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        token = make_token(tmp_path_factory.mktemp("token"), monkeypatch)
        other = Ed25519PrivateKey.generate()
        for label, number, key in (
            ("other", "01", other),
            ("db key", "02", rsa),
            ("release", "03", ed25519),
            ("twin", "04", ed25519),
            ("twin", "05", other),
        ):
            token.add_key(label, number, key)
        yield


def check(
    uri: str, key: RSAPrivateKey | Ed25519PrivateKey, environment: Mapping[str, str] = os.environ
) -> None:
    """Both kinds of keys sign the same each time; what is signed may be long."""
    file = FileSigner(key)
    for data in (DATA, DATA * 1000):
        assert open_signer(uri, file.public, "a.pub", environment).sign(data) == file.sign(data)


def test_a_key_is_named_by_its_label_or_id(rsa: RSAPrivateKey, ed25519: Ed25519PrivateKey) -> None:
    check("pkcs11:token=owner;object=db%20key", rsa)
    check("pkcs11:token=owner;id=%02", rsa)
    check("pkcs11:model=SoftHSM%20v2;token=owner;id=%03;object=release;type=private", ed25519)
    check("pkcs11:object=twin;id=%04", ed25519)


def test_module_and_pin_of_the_uri(tmp_path: Path, ed25519: Ed25519PrivateKey) -> None:
    pin = tmp_path / "pin"
    pin.write_text(f"{PIN}\n")
    for source in (f"pin-source={pin}", f"pin-source=file:{pin}", f"pin-value={PIN}"):
        check(f"pkcs11:token=owner;object=release?module-path={MODULE}&{source}", ed25519, {})


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        (
            "token=owner;object=none",
            "object=none: none of the token's private keys are meant, not one",
        ),
        ("object=twin", "pkcs11:object=twin: 2 of the token's private keys are meant, not one"),
        ("token=none;object=release", "there is no such token, but owner"),
        ("serial=01;object=release", "there is no such token, but owner"),
        ("slot-id=0;object=release", "there is no such token, but owner"),
        ("object=release?pin-value=9999", "object=release: C_Login failed with 0xa0: the PIN is wrong"),
        ("object=release?module-path=/none.so", "can't be loaded: /none.so: cannot open shared object file"),
        ("object=release?module-path=libc.so.6", "libc.so.6 is no library of PKCS #11"),
        ("object=other", "its answer of 64 bytes is no signature of the key of a.pub (another key signs, or"),
        ("object=db%20key", "pkcs11:object=db%20key: C_Sign"),
        ("token=owner", "pkcs11:token=owner: names no key (add object=LABEL or id=%01)"),
        ("object=a;type=public", "type is not private"),
        ("object=a;slot-id=x", "slot-id 'x' is no number"),
        ("object=a;colour=blue", "colour is unknown here, or given twice (token, manufacturer, model, "),
        ("object=a;object=b", "object is unknown here, or given twice"),
        ("object", "object is unknown here, or given twice"),
        ("object=%ff", "object is no UTF-8"),
        ("object=a?pin-source=|cat", "pkcs11:object=a: pin-source is a program (name a file, "),
        ("object=a?pin-source=/none", "/none: can't be read: No such file"),
    ],
)
def test_what_a_token_does_not_sign(ed25519: Ed25519PrivateKey, uri: str, error: str) -> None:
    with pytest.raises(UserError) as caught:
        open_signer(f"pkcs11:{uri}", ed25519.public_key(), "a.pub").sign(DATA)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "9999" not in str(caught.value)


def test_library_and_pin_have_to_be_known(ed25519: Ed25519PrivateKey) -> None:
    for environment, error in (
        ({}, "which library has the token? (set PKCS11_MODULE, or add ?module-path="),
        ({"PKCS11_MODULE": str(MODULE)}, "there is no PIN (set PKCS11_PIN, or add ?pin-source=FILE)"),
    ):
        with pytest.raises(UserError) as caught:
            open_signer("pkcs11:object=release", ed25519.public_key(), "a.pub", environment).sign(DATA)
        assert error in str(caught.value)
