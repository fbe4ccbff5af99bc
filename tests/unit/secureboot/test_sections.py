"""The signed policy of PCR 11 in UKIs: where the sections go, and what is refused."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.pki.programs import make_program

from talos.pki.signer import FileSigner, Signer
from talos.secureboot.sections import add_arguments, add_signed_policy
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.signed_policy import parse_image_policy
from talos.system.tpm.uki import measure_profiles

SHARED = [(".text", b"code"), (".osrel", b"ID=talos\n"), (".cmdline", b"a"), (".initrd", b"0707" * 900)]
PROFILES = [(".profile", b"ID=main"), (".profile", b"ID=trial"), (".cmdline", b"a talos.trial")]


@pytest.fixture(scope="module")
def signer() -> Signer:
    return FileSigner(rsa.generate_private_key(65537, 2048))


def add(folder: Path, signer: Signer, data: bytes) -> Path:
    (folder / "image.efi").write_bytes(data)
    add_signed_policy(folder / "image.efi", folder / "out.efi", signer)
    assert (folder / "image.efi").read_bytes() == data
    return folder / "out.efi"


def test_each_profile_has_its_signature(tmp_path: Path, signer: Signer) -> None:
    path = add(tmp_path, signer, make_program([*SHARED, *PROFILES], room=3))
    pem = signer.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with path.open("rb") as file:
        program = Program(file, path.stat().st_size)
        sections = program.list_sections()
        found = [(section.name, program.read(section.offset, section.size)) for section in sections]
        signatures = [data for name, data in found if name == ".pcrsig"]
        assert found == [
            *SHARED,
            (".pcrpkey", pem),
            PROFILES[0],
            (".pcrsig", signatures[0]),
            *PROFILES[1:],
            (".pcrsig", signatures[1]),
        ]
        for value, data in zip(measure_profiles(program), signatures, strict=True):
            assert parse_image_policy(pem, data, "the copy").find(value)
        program.hash()  # what is signed is whole


def test_an_image_without_profiles(tmp_path: Path, signer: Signer) -> None:
    path = add(tmp_path, signer, make_program(SHARED, room=2))
    with path.open("rb") as file:
        names = [section.name for section in Program(file, path.stat().st_size).list_sections()]
    assert names == [".text", ".osrel", ".cmdline", ".initrd", ".pcrpkey", ".pcrsig"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"MZ", "less than its header names"),
        (make_program([*SHARED, (".pcrpkey", b"x")], room=9), "it has a section .pcrpkey already"),
        (make_program([*SHARED, (".pcrsig", b"x")], room=9), "it has a section .pcrsig already"),
        (make_program(PROFILES, room=9), "it has no section before the first .profile"),
        (make_program(SHARED), "its header has no room for 5 sections"),
        (Path("tests/data/authenticode/signed.efi").read_bytes(), "it is signed already"),
    ],
)
def test_what_is_refused(tmp_path: Path, signer: Signer, data: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        add(tmp_path, signer, data)
    assert str(caught.value).startswith(f"{tmp_path}/image.efi: ")


def list_sections(path: Path) -> list[tuple[str, bytes]]:
    with path.open("rb") as file:
        program = Program(file, path.stat().st_size)
        program.hash()  # what is signed is whole
        return [(one.name, program.read(one.offset, one.size)) for one in program.list_sections()]


def test_arguments_are_those_of_all_profiles(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "image.efi").write_bytes(make_program([*SHARED, *PROFILES], room=3))
    url = "talos.boot.url=http://10.0.0.2:8080/assets/talos.efi"
    add_arguments(tmp_path / "image.efi", tmp_path / "out.efi", [url, "debug"])
    expected = [
        (".text", b"code"),
        (".osrel", b"ID=talos\n"),
        (".cmdline", f"a {url} debug".encode()),
        (".initrd", b"0707" * 900),
        (".profile", b"ID=main"),
        (".profile", b"ID=trial"),
        (".cmdline", f"a talos.trial {url} debug".encode()),
    ]
    assert list_sections(tmp_path / "out.efi") == expected
    add_signed_policy(tmp_path / "out.efi", tmp_path / "signed.efi", signer)
    assert [
        one for one in list_sections(tmp_path / "signed.efi") if one[0] not in (".pcrpkey", ".pcrsig")
    ] == expected


def test_arguments_of_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "image.efi").write_bytes(b"MZ")
    with pytest.raises(UserError, match=r"take the file of `nix build \.#uki`"):
        add_arguments(tmp_path / "image.efi", tmp_path / "out.efi", ["debug"])
