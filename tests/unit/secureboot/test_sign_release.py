"""``sign-release``."""

import io
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.pki.programs import make_uki
from tests.unit.secureboot.programs import LOADER, make_pair, sign_program

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_fingerprint, key_to_pem
from talos.secureboot.sign_release import main
from talos.secureboot.variables import (
    DATABASE,
    REVOKED,
    make_authenticated,
    make_signature_list,
)
from talos.system.efi_signatures import parse_signatures, parse_update
from talos.system.pe import Program
from talos.system.tpm.signed_policy import parse_image_policy
from talos.system.tpm.uki import measure_profiles
from talos.upgrade.release.archive import read_annotations, read_archive
from talos.upgrade.release.main import main as make_release
from talos.upgrade.release.manifest import ReleaseManifest, parse_release


@pytest.fixture
def folder(made: CertificateAuthority, tmp_path: Path) -> Path:
    files = {
        "keys/uki-signing-key.pem": made.pem.key,
        "keys/uki-signing-cert.pem": made.pem.crt,
        "uki/EFI/BOOT/BOOTX64.EFI": LOADER,
        "uki/EFI/Linux/Talos-v1.15.3.efi": make_uki("v1.15.3"),
        "vmlinuz": b"kernel",
        "initramfs": b"0707",
        "cmdline": b"pti=on",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    argv = ["make", "--version", "v1.15.3", "--commit", "abc", "--commit-time", "1767225600"]
    names = [str(tmp_path / name) for name in ("vmlinuz", "initramfs", "cmdline")]
    assert make_release([*argv, "--out", str(tmp_path / "release.tar"), *names]) == 0
    return tmp_path


def sign(folder: Path, *more: str) -> int:
    argv = ["--keys", str(folder / "keys"), "--uki", str(folder / "uki"), "--out", str(folder / "out.tar")]
    return main([*argv, *more, str(folder / "release.tar")])


def read(path: Path) -> ReleaseManifest:
    _, image = read_archive(path)
    return parse_release(read_annotations(image["annotations"], str(path))[0])


def read_files(path: Path) -> Mapping[str, bytes]:
    _, image = read_archive(path)
    with tarfile.open(path) as tar:
        layer = tar.extractfile(f"blobs/sha256/{image['layers'][0]['digest'].partition(':')[2]}")
        assert layer
        with tarfile.open(fileobj=layer) as files:
            return {
                Path(member.name).name: content.read()
                for member in files
                if (content := files.extractfile(member)) is not None
            }


def test_a_release_has_the_signed_programs_alone(
    folder: Path, made: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(folder) == 0
    key = key_fingerprint(made.certificate.public_key())
    assert capsys.readouterr().out == f"{folder}/out.tar: CN=Ours, key {key}\n"
    before, after = read(folder / "release.tar"), read(folder / "out.tar")
    assert (after.version, after.commit, after.features) == (before.version, before.commit, before.features)
    index, _ = read_archive(folder / "out.tar")
    assert index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == "v1.15.3"
    assert read_files(folder / "out.tar") == {
        "vmlinuz.efi": sign_program(make_uki("v1.15.3"), made),
        "systemd-boot.efi": sign_program(LOADER, made),
        "commit-time": b"1767225600\n",
    }


def test_a_key_of_pcr_policies_signs_the_uki(folder: Path, made: CertificateAuthority) -> None:
    (folder / "keys/pcr-signing-key.pem").write_bytes(key_to_pem(rsa.generate_private_key(65537, 2048)))
    assert sign(folder) == 0
    found = read_files(folder / "out.tar")
    data = found["vmlinuz.efi"]
    program = Program(io.BytesIO(data), len(data))
    policy = parse_image_policy(
        program.read_section(".pcrpkey", 4096), program.read_section(".pcrsig", 4096), "the UKI"
    )
    (value,) = measure_profiles(program)
    assert policy.find(value)
    assert found["systemd-boot.efi"] == sign_program(LOADER, made)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        (
            "uki/EFI/Linux/Talos-v1.15.3.efi",
            make_uki("v1.15.4"),
            "is v1.15.4, the release is v1.15.3 (build both",
        ),
        ("uki/EFI/Linux/Talos-v1.15.3.efi", b"MZ", "is no UKI, the release is v1.15.3"),
        ("uki/EFI/BOOT/BOOTX64.EFI", None, "uki: has not EFI/BOOT/BOOTX64.EFI and one file in EFI/Linux"),
        ("release.tar", b"", "release.tar: is no release archive"),
        ("keys/uki-signing-key.pem", None, "No such file"),
        ("keys/pcr-signing-key.pem", b"", "pcr-signing-key.pem: no private key in PEM form"),
    ],
)
def test_what_is_not_signed(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes | None, error: str
) -> None:
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    assert sign(folder) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("sign-release: ")
    assert error in shown
    assert shown.count("\n") == 1
    assert not [path for path in folder.iterdir() if "out" in path.name]


def test_updates_of_the_firmware_s_databases(folder: Path, made: CertificateAuthority) -> None:
    value = make_signature_list([made.certificate], UUID(int=1))
    for variable in (DATABASE, REVOKED):
        update = make_authenticated(variable, value, make_pair(made), datetime.now(UTC), append=True)
        (folder / variable.name).write_bytes(update)
    assert sign(folder, "--db", str(folder / "db"), "--dbx", str(folder / "dbx")) == 0
    found = read_files(folder / "out.tar")
    assert found["db.auth"] == (folder / "db").read_bytes() != found["dbx.auth"]
    assert parse_update(found["dbx.auth"]) == parse_signatures(value)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "update: is no signed update of dbx: 0 bytes are no signed update (talosctl gen"),
        (bytes(16) + b"\5\0\0\0x", "update: is no signed update of dbx: it has no entries"),
        (None, "update: can't be read: No such file"),
    ],
)
def test_what_is_no_update(
    folder: Path, capsys: pytest.CaptureFixture[str], data: bytes | None, error: str
) -> None:
    if data is not None:
        (folder / "update").write_bytes(data)
    assert sign(folder, "--dbx", str(folder / "update")) == 1
    assert error in capsys.readouterr().err
    assert not (folder / "out.tar").exists()
