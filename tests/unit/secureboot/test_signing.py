"""``sign-efi``, with a program in place of Debian's sbsign."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType, key_fingerprint
from talos.secureboot.main import main
from talos.secureboot.signing import ROOT_VARIABLE

LOADER = """#!{python}
import pathlib, sys
program, argv = pathlib.Path(sys.argv[3]).name, sys.argv[4:]
image = pathlib.Path(argv[-1]).read_bytes()
assert program == "sbsign"
pathlib.Path(argv[argv.index("--output") + 1]).write_bytes(image + b"signature")
if b"damaged" in image:
    sys.exit("the image is damaged")
"""


@pytest.fixture
def authority(
    made: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CertificateAuthority:
    loader = tmp_path / "root/usr/lib64/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text(LOADER.format(python=sys.executable))
    loader.chmod(0o755)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "root"))
    (tmp_path / "key.pem").write_bytes(made.pem.key)
    (tmp_path / "certificate.pem").write_bytes(made.pem.crt)
    (tmp_path / "image.efi").write_bytes(b"MZimage")
    return made


def sign(folder: Path, *more: str) -> int:
    keys = ["--key", str(folder / "key.pem"), "--certificate", str(folder / "certificate.pem")]
    return main([*keys, *more, str(folder / "image.efi")])


def test_a_signed_copy(
    tmp_path: Path, authority: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(tmp_path) == 0
    signed = tmp_path / "image.signed.efi"
    assert signed.read_bytes() == b"MZimagesignature"
    key = key_fingerprint(authority.certificate.public_key())
    assert capsys.readouterr().out == f"{signed}: CN=Ours, key {key}\n"
    assert sign(tmp_path, "--out", str(tmp_path / "other")) == 0
    assert (tmp_path / "other").read_bytes() == b"MZimagesignature"

    (tmp_path / "image.efi").write_bytes(b"MZdamaged")
    assert sign(tmp_path, "--out", str(tmp_path / "third")) == 1
    assert "the image is damaged" in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if "third" in path.name]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("image.efi", b"\x7fELF", "image.efi: is no EFI program"),
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
    assert "key.pem: does not belong to" in capsys.readouterr().err
    (tmp_path / "key.pem").write_bytes(other.pem.key)
    assert sign(tmp_path) == 1
    assert "key.pem: firmware takes RSA keys only" in capsys.readouterr().err
    (tmp_path / "key.pem").unlink()
    assert sign(tmp_path) == 1
    assert "No such file" in capsys.readouterr().err


def test_it_needs_sbsigntool(
    tmp_path: Path,
    authority: CertificateAuthority,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv(ROOT_VARIABLE)
    assert sign(tmp_path) == 1
    assert "(start it as `nix run .#sign-efi`)" in capsys.readouterr().err
