"""PCR 11 of a UKI: the values and signatures that systemd-measure 257 has made of the same sections.

systemd-measure sign --linux=… --profile=… --bank=sha256
    --phase=enter-initrd:leave-initrd:enter-machined --private-key=… --public-key=…
"""

import base64
import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.pki.programs import make_program

from talos.pki.keys import public_key_to_pem
from talos.pki.signer import FileSigner
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.signed_policy import parse_image_policy, sign_values
from talos.system.tpm.uki import measure_profiles

DATA = Path("tests/data/measured-boot")
KEY = (DATA / "pcr-public-key.pem").read_bytes()
SECTIONS = [
    (".text", b"code"),
    (".sbat", b"sbat,1\n"),
    (".osrel", b"ID=talos\nVERSION_ID=v1.15.0\n"),
    (".cmdline", b"console=ttyS0"),
    (".uname", b"6.12.0"),
    (".linux", b"kernel"),
    (".initrd", b"0707"),
    (".pcrpkey", KEY),
    (".profile", b"ID=main"),
    (".pcrsig", (DATA / "main.json").read_bytes()),
    (".profile", b"ID=trial"),
    (".cmdline", b"console=ttyS0 talos.trial"),
    (".pcrsig", (DATA / "trial.json").read_bytes()),
]


def measure(sections: list[tuple[str, bytes]]) -> list[bytes]:
    data = make_program(sections)
    return list(measure_profiles(Program(io.BytesIO(data), len(data))))


@pytest.mark.parametrize(("number", "name"), [(0, "main.json"), (1, "trial.json")])
def test_the_values_are_those_of_systemd_measure(number: int, name: str) -> None:
    policy = parse_image_policy(KEY, (DATA / name).read_bytes(), "a UKI")
    values = measure(SECTIONS)
    assert policy.find(values[number])
    assert policy.find(values[1 - number]) is None


def test_a_changed_section_has_another_value_but_signatures_are_not_measured() -> None:
    usual = measure(SECTIONS)
    assert measure([row for row in SECTIONS if row[0] != ".pcrsig"]) == usual
    for number, (name, data) in enumerate(SECTIONS):
        if name not in {".pcrsig", ".text"}:
            changed = measure([*SECTIONS[:number], (name, data + b"x"), *SECTIONS[number + 1 :]])
            assert changed != usual, name


def test_a_uki_without_profiles() -> None:
    assert len(measure(SECTIONS[:8])) == 1


def test_signatures_of_our_own(key: rsa.RSAPrivateKey) -> None:
    values = measure(SECTIONS)
    made = sign_values(FileSigner(key), values)
    policy = parse_image_policy(public_key_to_pem(key), made, "a UKI")
    assert [policy.find(value) is not None for value in values] == [True, True]
    rows = json.loads(made)["sha256"]
    for row, name in zip(rows, ("main.json", "trial.json"), strict=True):
        (theirs,) = json.loads((DATA / name).read_bytes())["sha256"]
        assert row.keys() == theirs.keys()
        assert (row["pcrs"], row["pol"]) == (theirs["pcrs"], theirs["pol"])
        row["sig"] = theirs["sig"]
    forged = parse_image_policy(public_key_to_pem(key), json.dumps({"sha256": rows}).encode(), "a UKI")
    assert forged.find(values[0]) is None, "another key's signature"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def make_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


CURVE = bytes.fromhex("3013300e06072a8648ce3d020106032a0304030100")
"""A key on a curve that nothing has."""
UNKNOWN = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(CURVE) + b"\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize(
    ("pem", "signatures", "reason"),
    [
        (b"", b"{}", "its key is none in PEM"),
        (b"-----BEGIN PUBLIC KEY-----", b"{}", "can't be read"),
        (make_pem(ec.generate_private_key(ec.SECP256R1())), b"{}", "TPMs take RSA keys of 2048 bits only"),
        (UNKNOWN, b"{}", "Curve 1.2.3.4 is not supported"),
        (KEY, b"", "can't be read"),
        (KEY, b"[]", "can't be read"),
        (KEY, b'{"sha256": [{}]}', "'pcrs'"),
        (KEY, b'{"sha256": [{"pcrs": [11], "pkfp": "x"}]}', "can't be read"),
        (KEY, b'{"sha256": ' * 2000, "can't be read"),
    ],
)
def test_what_an_image_has_is_checked(pem: bytes, signatures: bytes, reason: str) -> None:
    with pytest.raises(UserError, match="a UKI: the signed policy of PCR 11 can't be read") as caught:
        parse_image_policy(pem, signatures, "a UKI")
    assert reason in str(caught.value)
