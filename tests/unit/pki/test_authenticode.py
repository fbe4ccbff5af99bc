"""Signatures of EFI programs, as ``sbsign`` makes them."""

import hashlib
import io
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from tests.unit.pki.programs import make_uki

from talos.pki.authenticode import Trust, check_signature
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.system.pe import Program

DATA = Path("tests/data/authenticode")
SIGNED = (DATA / "signed.efi").read_bytes()
OWNER = x509.load_pem_x509_certificate((DATA / "certificate.pem").read_bytes())
UNSIGNED = make_uki("v1.15.3")
LAST = max(
    section.offset + section.size - 1 for section in Program(io.BytesIO(SIGNED), len(SIGNED)).list_sections()
)
"""The last byte of the signed program's sections."""


def check(data: bytes, *trusted: x509.Certificate) -> None:
    check_signature(Program(io.BytesIO(data), len(data)), Trust(trusted=trusted))


def test_the_owner_s_certificate_is_one_of_several() -> None:
    other = CertificateAuthority.generate(KeyType.P256, common_name="Other", ttl=timedelta(days=1))
    check(SIGNED, other.certificate, OWNER)
    with pytest.raises(ValueError, match="signed by CN=Ours, whose certificate the firmware does not have"):
        check(SIGNED, other.certificate)
    with pytest.raises(ValueError, match="does not have"):
        check(SIGNED)


@pytest.mark.parametrize("kind", ["certificate", "signed part", "program"])
def test_what_is_revoked(kind: str) -> None:
    program, reason = Program(io.BytesIO(SIGNED), len(SIGNED)), "by CN=Ours, whose certificate is revoked"
    trust = Trust(trusted=[OWNER], revoked=[OWNER])
    if kind == "signed part":
        digest = hashlib.sha256(OWNER.tbs_certificate_bytes).digest()
        trust = Trust(trusted=[OWNER], digests={digest})
    elif kind == "program":
        trust, reason = Trust(trusted=[OWNER], digests={program.hash()}), "it is revoked by its digest"
    with pytest.raises(ValueError, match=reason):
        check_signature(program, trust)


def test_a_part_of_a_file() -> None:
    data = b"before" + SIGNED + b"after"
    check_signature(Program(io.BytesIO(data), len(SIGNED), len(b"before")), Trust(trusted=[OWNER]))


def test_what_is_not_signed() -> None:
    with pytest.raises(ValueError, match="it is not signed"):
        check(UNSIGNED, OWNER)


@pytest.mark.parametrize("place", [2, LAST // 2, LAST])
def test_a_changed_byte_of_the_program(place: int) -> None:
    data = bytearray(SIGNED)
    data[place] ^= 1
    with pytest.raises(ValueError, match="it was changed after it was signed"):
        check(bytes(data), OWNER)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_any_changed_byte_is_an_error_with_a_reason() -> None:
    """The checksum, and bytes of the signature that are not signed, are of no account."""
    accepted = 0
    for place in range(0, len(SIGNED), 3):
        data = bytearray(SIGNED)
        data[place] ^= 0x81
        with suppress(ValueError):
            check(bytes(data), OWNER)
            accepted += 1
    assert accepted < 50


@pytest.mark.parametrize("size", range(0, len(SIGNED), 97))
def test_what_ends_too_early(size: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check(SIGNED[:size], OWNER)
