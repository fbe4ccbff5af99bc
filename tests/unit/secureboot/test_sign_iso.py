"""``sign-iso``, with a program in place of mkfs.vfat, mcopy and xorriso."""

import sys
from pathlib import Path

import pytest
from tests.unit.pki.programs import make_uki
from tests.unit.secureboot.programs import LOADER, make_variables, sign_program

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_fingerprint
from talos.secureboot.enrolment import VARIABLES
from talos.secureboot.esp import ROOT_VARIABLE
from talos.secureboot.sign_iso import main

MIB = 1 << 20
UKI = make_uki("v1")
TOOLS = """#!{python}
import os, pathlib, sys
program, argv = pathlib.Path(sys.argv[3]).name, sys.argv[4:]
with open(os.environ.get("SEEN", "/dev/null"), "a") as seen:
    print(program, *argv, file=seen)
if program == "mcopy":
    with open(argv[argv.index("-i") + 1], "r+b") as disk:
        for folder in map(pathlib.Path, argv[argv.index("-i") + 2 : -1]):
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    disk.write(b"%s=%s;" % (str(path.relative_to(folder.parent)).encode(), path.read_bytes()))
elif program == "xorriso":
    new = pathlib.Path(argv[argv.index("-outdev") + 1])
    assert not new.exists(), "it would be added to"
    new.write_bytes(pathlib.Path(argv[argv.index("-map") + 1]).read_bytes())
"""


def write_iso(path: Path, label: str = "TALOS") -> None:
    """The beginning of one: its volume descriptor."""
    path.write_bytes(bytes(32768) + b"\x01CD001\x01".ljust(40, b"\0") + label.encode().ljust(2008))


def install_tools(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all tools be this program, with its own path as its third argument."""
    loader = folder / "root/usr/lib64/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text(program.format(python=sys.executable))
    loader.chmod(0o755)
    monkeypatch.setenv(ROOT_VARIABLE, str(folder / "root"))


@pytest.fixture
def folder(made: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_tools(tmp_path, TOOLS, monkeypatch)
    files = {
        "keys/uki-signing-key.pem": made.pem.key,
        "keys/uki-signing-cert.pem": made.pem.crt,
        "uki/EFI/BOOT/BOOTX64.EFI": LOADER,
        "uki/EFI/Linux/Talos-v1.efi": UKI,
        **{f"keys/{name}": data for name, data in make_variables(made).items()},
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    write_iso(tmp_path / "talos.iso")
    return tmp_path


def sign(folder: Path) -> int:
    argv = ["--keys", str(folder / "keys"), "--uki", str(folder / "uki"), "--out", str(folder / "signed.iso")]
    return main([*argv, str(folder / "talos.iso")])


def test_firmware_finds_the_signed_files_and_the_keys(
    folder: Path, made: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".signed.iso.new").write_bytes(b"of one that was cut short")
    assert sign(folder) == 0
    key = key_fingerprint(made.certificate.public_key())
    assert capsys.readouterr().out == f"{folder}/signed.iso: CN=Ours, key {key}\n"
    assert (folder / "signed.iso").read_bytes().rstrip(b"\0") == (
        b"EFI/BOOT/BOOTX64.EFI=%s;EFI/Linux/Talos-v1.efi=%s;"
        % (sign_program(LOADER, made), sign_program(UKI, made))
        + b"".join(
            b"loader/keys/auto/%s=%s;" % (name.encode(), data)
            for name, data in sorted(make_variables(made).items())
        )
        + b"loader/loader.conf=timeout 3\nsecure-boot-enroll if-safe\n;"
    )
    xorriso = (folder / "seen").read_text().splitlines()[-1]
    assert f"-indev {folder}/talos.iso -outdev {folder}/.signed.iso.new" in xorriso
    assert "-boot_image any discard" in xorriso
    assert "-rm_r /boot --" in xorriso
    assert "-boot_image any efi_path=/boot/efi.img" in xorriso
    assert xorriso.endswith(" -padding included")
    assert not [path for path in folder.iterdir() if ".new" in path.name]


@pytest.mark.parametrize(("size", "cluster", "whole"), [(5, 1, 40), (80, 2, 88), (270, 8, 278)])
def test_clusters_are_as_large_as_fat32_allows(folder: Path, size: int, cluster: int, whole: int) -> None:
    with (folder / "uki/EFI/Linux/Talos-v1.efi").open("r+b") as file:
        file.truncate(size * MIB)
    assert sign(folder) == 0
    made = next(line for line in (folder / "seen").read_text().splitlines() if line.startswith("mkfs.vfat"))
    assert made.startswith(f"mkfs.vfat -F 32 -n EFI -s {cluster} ")
    found = (folder / "signed.iso").stat().st_size
    assert found // (512 * cluster) > 65_525
    assert found // MIB in (whole, whole + 1)


def test_firmware_that_has_the_keys_already(folder: Path) -> None:
    for name in VARIABLES:
        (folder / "keys" / name).unlink()
    assert sign(folder) == 0
    signed = (folder / "signed.iso").read_bytes()
    assert b".auth" not in signed
    assert b"loader/loader.conf=timeout 3\n;" in signed


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("talos.iso", b"", "talos.iso: is no ISO with the label TALOS (`nix build .#iso` makes one)"),
        ("talos.iso", None, "No such file"),
        ("keys/db.auth", None, "keys: has only PK.auth, KEK.auth of PK.auth, KEK.auth, db.auth"),
        (
            "keys/PK.auth",
            b"PK",
            "PK.auth: is no signed variable: 2 bytes are no signed update (`talosctl gen",
        ),
        ("uki/EFI/Linux/other.efi", b"MZ", "uki: has not EFI/BOOT/BOOTX64.EFI and one file in EFI/Linux"),
    ],
)
def test_what_is_not_signed(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, error: str
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    assert sign(folder) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("sign-iso: ")
    assert error in shown
    assert shown.count("\n") == 1
    assert not [path for path in folder.iterdir() if "signed" in path.name]


def test_variables_of_another_owner(
    folder: Path, signing: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "keys/db.auth").write_bytes(make_variables(signing)["db.auth"])
    assert sign(folder) == 1
    shown = capsys.readouterr().err
    assert "keys/db.auth: does not have CN=Ours, the certificate of what is signed (`talosctl gen" in shown


def test_another_iso(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_iso(folder / "talos.iso", "debian")
    assert sign(folder) == 1
    assert "is no ISO with the label TALOS" in capsys.readouterr().err


def test_it_needs_the_tools_for_disks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(ROOT_VARIABLE)
    assert sign(folder) == 1
    assert "(start it as `nix run .#sign-iso`)" in capsys.readouterr().err
