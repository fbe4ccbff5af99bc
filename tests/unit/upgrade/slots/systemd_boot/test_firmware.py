"""What firmware with Secure Boot would refuse, and what it has started."""

import io
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from tests.unit.pki.programs import make_uki

from talos.secureboot.variables import make_signature_list
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.slots.systemd_boot.firmware import Firmware

DATA = Path("tests/data/authenticode")
SIGNED = (DATA / "signed.efi").read_bytes()
OWNER = x509.load_pem_x509_certificate((DATA / "certificate.pem").read_bytes())


def make_firmware(folder: Path, *, secure_boot: bool = True, db: bytes | None = None) -> Firmware:
    firmware = Firmware(
        settings=EfiVariables(folder, "settings"),
        databases=EfiVariables(folder, "databases"),
        loader=EfiVariables(folder, "loader"),
    )
    firmware.settings.make("SecureBoot", bytes([secure_boot]))
    if db is not None:
        firmware.databases.make("db", db)
    return firmware


def check(firmware: Firmware, data: bytes) -> None:
    firmware.check(Program(io.BytesIO(data), len(data)), "image x: vmlinuz.efi")


def test_a_program_by_a_key_of_the_database(tmp_path: Path) -> None:
    check(make_firmware(tmp_path, db=make_signature_list([OWNER], UUID(int=1))), SIGNED)


@pytest.mark.parametrize("db", [None, b""])
def test_a_program_by_another_key(tmp_path: Path, db: bytes | None) -> None:
    reason = (
        "image x: vmlinuz.efi: Secure Boot is on: it is signed by CN=Ours, whose certificate the firmware "
        r"does not have \(sign it by one that it has: nix run .#sign-release\)"
    )
    with pytest.raises(UserError, match=reason):
        check(make_firmware(tmp_path, db=db), SIGNED)


def test_a_program_that_is_not_signed(tmp_path: Path) -> None:
    firmware = make_firmware(tmp_path, db=make_signature_list([OWNER], UUID(int=1)))
    with pytest.raises(UserError, match="Secure Boot is on: it is not signed"):
        check(firmware, make_uki("v1.15.3"))


def test_without_secure_boot_anything_is_started(tmp_path: Path) -> None:
    check(make_firmware(tmp_path, secure_boot=False), make_uki("v1.15.3"))


@pytest.mark.parametrize(
    ("entry", "slot"),
    [("talos-b.efi@trial", "B"), ("talos-a.efi", "A"), ("talos-v1.15.0.efi", ""), (None, "")],
)
def test_the_slot_that_was_started(tmp_path: Path, entry: str | None, slot: str) -> None:
    firmware = make_firmware(tmp_path)
    assert not firmware.has_started_uki
    firmware.loader.make("StubInfo", b"s\0")
    if entry is not None:
        firmware.loader.make("LoaderEntrySelected", f"{entry}\0".encode("utf-16-le"))
    assert firmware.has_started_uki
    assert (firmware.entry, firmware.running) == (entry or "", slot)


@pytest.mark.parametrize(
    ("identifier", "path"),
    [
        ("\\EFI\\TALOS\\SDBOOT.EFI", "EFI/TALOS/SDBOOT.EFI"),
        ("/EFI/BOOT/BOOTX64.EFI", "EFI/BOOT/BOOTX64.EFI"),
        (None, ""),
    ],
)
def test_the_boot_loader_that_was_started(tmp_path: Path, identifier: str | None, path: str) -> None:
    firmware = make_firmware(tmp_path)
    if identifier is not None:
        firmware.loader.make("LoaderImageIdentifier", f"{identifier}\0".encode("utf-16-le"))
    assert firmware.loader_path == path
