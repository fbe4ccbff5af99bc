"""``sign`` of an image that names its owner, and the folder of the owner's public parts."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from tests.unit.pki.programs import make_program
from tests.unit.secureboot.programs import LOADER, make_variables, sign_program
from tests.unit.secureboot.test_sign_disk import TOOLS as DISK_TOOLS
from tests.unit.secureboot.test_sign_disk import write_image
from tests.unit.secureboot.test_sign_iso import TOOLS as ISO_TOOLS
from tests.unit.secureboot.test_sign_iso import install_tools, write_iso

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_fingerprint, key_to_pem, public_key_to_pem
from talos.secureboot.owner import main as write_owner
from talos.secureboot.sign import main
from talos.upgrade.release.main import main as make_release

UKI = make_program(
    [
        (".osrel", b"NAME=Talos\nID=talos\nVERSION_ID=v1.15.3\n"),
        (".cmdline", b"a"),
        (".profile", b"ID=main"),
        (".profile", b"ID=trial"),
    ],
    room=3,
)


@pytest.fixture(scope="module")
def policy_key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture
def folder(
    made: CertificateAuthority, policy_key: RSAPrivateKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Private keys, public parts, and an image."""
    files = {
        "db.pem": made.pem.key,
        "pcr.pem": key_to_pem(policy_key),
        "parts/certificate": made.pem.crt,
        "parts/pcrKey": public_key_to_pem(policy_key),
        "uki/EFI/BOOT/BOOTX64.EFI": LOADER,
        "uki/EFI/Linux/Talos-v1.15.3.efi": UKI,
        **dict.fromkeys(("vmlinuz", "initramfs", "cmdline"), b"content"),
        **{f"parts/{name.split('.')[0].lower()}": data for name, data in make_variables(made).items()},
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    argv = ["make", "--version", "v1.15.3", "--commit", "abc", "--out", str(tmp_path / "release.tar")]
    assert make_release([*argv, *(str(tmp_path / name) for name in ("vmlinuz", "initramfs", "cmdline"))]) == 0
    write_iso(tmp_path / "talos.iso")
    write_image(tmp_path / "disk.raw")
    for name, path in {
        "keys": "keys",
        "uki": "uki",
        "iso": "talos.iso",
        "disk": "disk.raw",
        "release": "release.tar",
    }.items():
        monkeypatch.setenv(f"TALOS_SIGN_{name.upper()}", str(tmp_path / path))
    return tmp_path


def make_owner(folder: Path, *names: str) -> int:
    """The folder of these parts, or of all."""
    parts = [path for path in (folder / "parts").iterdir() if not names or path.name in names]
    return write_owner([*(f"--{path.name}={path}" for path in parts), str(folder / "keys")])


def sign(folder: Path, kind: str, *more: str, pcr: Sequence[str] = ("--pcr-key", "pcr.pem")) -> int:
    argv = [kind, "--key", str(folder / "db.pem"), "--out", str(folder / "out"), *more]
    return main([*argv, *(str(folder / word) if word.endswith(".pem") else word for word in pcr)])


def read_head(path: Path) -> bytes:
    """Of a disk image, not all of it."""
    with path.open("rb") as file:
        return file.read(2 << 20)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("iso", ()), ("disk", ()), ("esp", ()), ("netboot", ("--url", "http://10.0.0.2/a")), ("release", ())],
)
def test_each_kind_is_signed(
    folder: Path,
    made: CertificateAuthority,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    more: Sequence[str],
) -> None:
    install_tools(folder, DISK_TOOLS if kind == "disk" else ISO_TOOLS, monkeypatch)
    assert make_owner(folder) == 0
    assert sign(folder, kind, *more) == 0
    key = key_fingerprint(made.certificate.public_key())
    assert capsys.readouterr().out == f"{folder}/out: CN=Ours, key {key}\n"
    out = folder / "out"
    paths = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else [out]
    data = b"".join(read_head(path) for path in paths)
    assert sign_program(LOADER, made) in data
    assert b".pcrsig" in data
    assert (make_variables(made)["db.auth"] in data) == (kind in ("iso", "disk", "esp"))


def test_without_a_key_of_policies(folder: Path, made: CertificateAuthority) -> None:
    assert make_owner(folder, "certificate") == 0
    assert sign(folder, "esp", pcr=()) == 0
    assert not list((folder / "out/loader/keys/auto").iterdir())
    assert (folder / "out/EFI/Linux/Talos-v1.15.3.efi").read_bytes() == sign_program(UKI, made)
    with pytest.raises(SystemExit):
        sign(folder, "netboot", "--url", "http://10.0.0.2")


def test_other_keys_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_owner(folder) == 0
    shutil.copyfile(folder / "db.pem", folder / "ours.pem")
    shutil.copyfile(folder / "pcr.pem", folder / "db.pem")
    assert sign(folder, "esp") == 1
    shown = f"sign: {folder}/db.pem: does not belong to {folder}/keys/uki-signing-cert.pem\n"
    assert capsys.readouterr().err == shown
    shutil.copyfile(folder / "ours.pem", folder / "db.pem")
    (folder / "pcr.pem").write_bytes(key_to_pem(generate_private_key(65537, 2048)))
    assert sign(folder, "esp") == 1
    shown = f"sign: {folder}/pcr.pem: does not belong to {folder}/keys/pcr-signing-public-key.pem\n"
    assert capsys.readouterr().err == shown
    with pytest.raises(SystemExit):
        sign(folder, "esp", pcr=())
    assert "the following arguments are required: --pcr-key" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_folder_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_owner(folder) == 0
    (folder / "out").mkdir()
    assert sign(folder, "esp") == 1
    assert capsys.readouterr().err == f"sign: {folder}/out: is there already\n"
    assert not list((folder / "out").iterdir())


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("certificate", b"", "keys/uki-signing-cert.pem: "),
        ("pcrKey", b"", "keys/pcr-signing-public-key.pem: is no public key in PEM"),
        ("kek", b"", "keys/KEK.auth: is no signed variable: 0 bytes are no signed update"),
        ("pk", None, "keys: has only KEK.auth, db.auth of PK.auth, KEK.auth, db.auth"),
    ],
)
def test_parts_that_sign_and_enroll_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, error: str
) -> None:
    if content is None:
        (folder / "parts" / name).unlink()
    else:
        (folder / "parts" / name).write_bytes(content)
    assert make_owner(folder) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"lib.image: secureBoot: {folder}/{error}")
    assert shown.count("\n") == 1
