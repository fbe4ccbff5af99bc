# ruff: noqa: E501 - messages stand whole, so that they can be searched for

import pytest

from talos.pki.keys import KeyType, key_to_pem, make_key, parse_key
from talos.system.errors import UserError

TYPES = {
    KeyType.ED25519: b"ED25519 PRIVATE KEY",
    KeyType.P256: b"EC PRIVATE KEY",
    KeyType.RSA4096: b"RSA PRIVATE KEY",
}


@pytest.mark.parametrize("key_type", KeyType)
def test_key_keeps_its_pem_type_and_comes_back(key_type: KeyType) -> None:
    key = make_key(key_type)
    pem = key_to_pem(key)
    assert pem.startswith(b"-----BEGIN " + TYPES[key_type] + b"-----\n")
    assert pem.endswith(b"-----END " + TYPES[key_type] + b"-----\n")
    assert parse_key(pem).public_key() == key.public_key()


def test_ed25519_under_its_usual_name_is_read_too() -> None:
    pem = key_to_pem(make_key(KeyType.ED25519))
    assert key_to_pem(parse_key(pem.replace(b"ED25519 ", b""))) == pem


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (
            b"",
            "k: no private key in PEM form (expected a block that begins with -----BEGIN ... PRIVATE KEY-----)",
        ),
        (
            b"\xff\x00rubbish",
            "k: no private key in PEM form (expected a block that begins with -----BEGIN ... PRIVATE KEY-----)",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----",
            "k: no private key in PEM form (this is a CERTIFICATE)",
        ),
        (
            b"-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----",
            "k: the private key is damaged (copy the whole block, from BEGIN to END)",
        ),
    ],
)
def test_rubbish_is_refused_in_one_line(pem: bytes, message: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_key(pem, where="k")
    assert str(raised.value) == message
