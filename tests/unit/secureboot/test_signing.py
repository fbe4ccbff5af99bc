"""``sign-efi``."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.secureboot.programs import LOADER, sign_program

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType, key_fingerprint, key_to_pem
from talos.secureboot.main import main


@pytest.fixture
def authority(made: CertificateAuthority, tmp_path: Path) -> CertificateAuthority:
    (tmp_path / "key.pem").write_bytes(made.pem.key)
    (tmp_path / "certificate.pem").write_bytes(made.pem.crt)
    (tmp_path / "image.efi").write_bytes(LOADER)
    return made


def sign(folder: Path, *more: str) -> int:
    keys = ["--key", str(folder / "key.pem"), "--certificate", str(folder / "certificate.pem")]
    return main([*keys, *more, str(folder / "image.efi")])


def test_a_signed_copy(
    tmp_path: Path, authority: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(tmp_path) == 0
    signed = tmp_path / "image.signed.efi"
    assert signed.read_bytes() == sign_program(LOADER, authority)
    key = key_fingerprint(authority.certificate.public_key())
    assert capsys.readouterr().out == f"{signed}: CN=Ours, key {key}\n"
    assert sign(tmp_path, "--out", str(tmp_path / "other")) == 0
    assert (tmp_path / "other").read_bytes() == signed.read_bytes()

    (tmp_path / "image.efi").write_bytes(LOADER[:104])
    assert sign(tmp_path, "--out", str(tmp_path / "third")) == 1
    assert "image.efi: it has 104 bytes, less than its header names" in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if "third" in path.name]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("image.efi", b"\x7fELF", "image.efi: it is no EFI program"),
        ("key.pem", b"", "key.pem: no private key in PEM form"),
        ("certificate.pem", b"", "certificate.pem: "),
    ],
)
def test_what_is_not_signed(
    tmp_path: Path,
    authority: CertificateAuthority,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    error: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    assert sign(tmp_path) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("sign-efi: ")
    assert error in shown
    assert shown.count("\n") == 1


def test_keys_that_firmware_does_not_take(
    tmp_path: Path, authority: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    other = CertificateAuthority.generate(KeyType.P256, common_name="Other", ttl=timedelta(days=1))
    (tmp_path / "certificate.pem").write_bytes(other.pem.crt)
    assert sign(tmp_path) == 1
    assert "certificate.pem: firmware takes RSA keys only" in capsys.readouterr().err
    (tmp_path / "certificate.pem").write_bytes(authority.pem.crt)
    (tmp_path / "key.pem").write_bytes(other.pem.key)
    assert sign(tmp_path) == 1
    assert "key.pem: is no RSA or Ed25519 key" in capsys.readouterr().err
    (tmp_path / "key.pem").write_bytes(key_to_pem(rsa.generate_private_key(65537, 2048)))
    assert sign(tmp_path) == 1
    assert "key.pem: does not belong to" in capsys.readouterr().err
    (tmp_path / "key.pem").unlink()
    assert sign(tmp_path) == 1
    assert "No such file" in capsys.readouterr().err
