"""``sign-disk``, with a program in place of sfdisk, mkfs.vfat and mcopy."""

from pathlib import Path

import pytest
from tests.unit.disks.raid.heads import make_head
from tests.unit.pki.programs import make_uki
from tests.unit.secureboot.programs import LOADER, make_variables, sign_program
from tests.unit.secureboot.test_sign_iso import install_tools

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_fingerprint
from talos.secureboot.enrolment import VARIABLES
from talos.secureboot.esp import ROOT_VARIABLE
from talos.secureboot.sign_disk import main
from talos.system.block.layout import (
    EFI,
    META,
    MIB,
    UKI_EFI,
    UKI_INSTALLED,
    make_table,
    place_area,
    place_areas,
)

UKI = make_uki("v1")
META_START = place_area(META).start

TOOLS = """#!{python}
import os, pathlib, sys
program, argv = pathlib.Path(sys.argv[3]).name, sys.argv[4:]
if program == "sfdisk":
    with open(argv[-1], "r+b") as disk:
        disk.write(sys.stdin.read().encode())
elif program == "mkfs.vfat":
    place = 512 * int(argv[argv.index("--offset") + 1])
    with open(argv[-2], "r+b") as disk:
        disk.seek(place)
        disk.write(b"empty, of %d KiB" % int(argv[-1]))
elif program == "mcopy":
    file, place = argv[argv.index("-i") + 1].split("@@")
    with open(file, "r+b") as disk:
        disk.seek(int(place) + 512)
        for folder in map(pathlib.Path, argv[argv.index("-i") + 2 : -1]):
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    disk.write(b"%s=%s;" % (str(path.relative_to(folder.parent)).encode(), path.read_bytes()))
"""


def make_image(*labels: str, sectors: int = EFI.size // 512) -> bytes:
    """A disk image with a partition table."""
    return make_head(*labels, first=MIB // 512, sectors=sectors)


def write_image(path: Path) -> None:
    """One that has META, and a slot."""
    with path.open("wb") as disk:
        disk.write(make_image(EFI.label))
        disk.seek(META_START)
        disk.write(b"meta")
        disk.truncate(META_START + 3 * MIB)


@pytest.fixture
def keys(made: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_tools(tmp_path, TOOLS, monkeypatch)
    for name, data in {"EFI/BOOT/BOOTX64.EFI": LOADER, "EFI/Linux/Talos-v1.efi": UKI}.items():
        path = tmp_path / "uki" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    write_image(tmp_path / "disk.raw")
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "uki-signing-key.pem").write_bytes(made.pem.key)
    (folder / "uki-signing-cert.pem").write_bytes(made.pem.crt)
    for name, data in make_variables(made).items():
        (folder / name).write_bytes(data)
    return folder


def sign(folder: Path) -> int:
    argv = ["--keys", str(folder / "keys"), "--uki", str(folder / "uki"), "--out", str(folder / "signed.raw")]
    return main([*argv, str(folder / "disk.raw")])


def test_the_efi_partition_has_the_signed_files_and_the_keys(
    tmp_path: Path, keys: Path, made: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(tmp_path) == 0
    key = key_fingerprint(made.certificate.public_key())
    assert capsys.readouterr().out == f"{tmp_path}/signed.raw: CN=Ours, key {key}\n"
    start, after = read_ends(tmp_path / "signed.raw")
    table = make_table(place_areas(UKI_INSTALLED), sector_size=512).encode()
    assert start[:MIB].rstrip(b"\0") == table, "it has no boot loader for old firmware"
    assert after.rstrip(b"\0") == b"meta"
    assert (tmp_path / "signed.raw").stat().st_size == (tmp_path / "disk.raw").stat().st_size
    assert start[MIB:].startswith(b"empty, of 2151424 KiB")
    assert start[MIB + 512 :].rstrip(b"\0") == (
        b"EFI/BOOT/BOOTX64.EFI=%s;EFI/Linux/talos-a.efi=%s;"
        % (sign_program(LOADER, made), sign_program(UKI, made))
        + b"".join(
            b"loader/keys/auto/%s=%s;" % (name.encode(), data)
            for name, data in sorted(make_variables(made).items())
        )
        + b"loader/loader.conf=timeout 3\nsecure-boot-enroll if-safe\ndefault talos-a.efi\n;"
    )


def read_ends(path: Path) -> tuple[bytes, bytes]:
    """What is before META, as far as anything is there, and META with what follows."""
    with path.open("rb") as disk:
        start = disk.read(2 * MIB)
        disk.seek(META_START)
        return start, disk.read()


def test_firmware_that_has_the_keys_already(tmp_path: Path, keys: Path) -> None:
    for name in VARIABLES:
        (keys / name).unlink()
    assert sign(tmp_path) == 0
    signed, _ = read_ends(tmp_path / "signed.raw")
    assert b".auth" not in signed
    assert b"loader/loader.conf=timeout 3\ndefault talos-a.efi\n;" in signed


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("disk.raw", b"", "disk.raw: is no raw disk image whose first partition is EFI"),
        *(
            ("disk.raw", image, "disk.raw: is no raw disk image whose first partition is EFI")
            for image in (
                make_image(),
                make_image("BOOT", EFI.label),
                make_image("", EFI.label),
                make_image(EFI.label, sectors=EFI.size // 512 - 1),
                make_image(EFI.label)[:1024],
            )
        ),
        ("keys/db.auth", None, "keys: has only PK.auth, KEK.auth of PK.auth, KEK.auth, db.auth"),
        ("keys/uki-signing-key.pem", None, "No such file"),
        ("uki/EFI/BOOT/BOOTX64.EFI", None, "uki: has not EFI/BOOT/BOOTX64.EFI and one file in EFI/Linux"),
        ("uki/EFI/Linux/other.efi", b"MZ", "uki: has not EFI/BOOT/BOOTX64.EFI and one file in EFI/Linux"),
    ],
)
def test_what_is_not_signed(
    tmp_path: Path,
    keys: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    error: str,
) -> None:
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert sign(tmp_path) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("sign-disk: ")
    assert error in shown
    assert shown.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if "signed" in path.name]


def test_an_image_that_does_not_fit(tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "uki/EFI/Linux/Talos-v1.efi").open("r+b") as file:
        file.truncate(UKI_EFI.size // 2)
    assert sign(tmp_path) == 1
    assert "1054 MiB are needed, the EFI partition has 2101 for two slots" in capsys.readouterr().err


def test_it_needs_the_tools_for_disks(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(ROOT_VARIABLE)
    assert sign(tmp_path) == 1
    assert "(start it as `nix run .#sign-disk`)" in capsys.readouterr().err
