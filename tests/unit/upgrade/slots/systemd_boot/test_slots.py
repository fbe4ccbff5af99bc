"""Releases for a machine that systemd-boot starts."""

from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from tests.unit.disks.install.test_release import FILES, make_release
from tests.unit.pki.programs import make_uki

from talos.secureboot.variables import make_signature_list
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots.port import check_parts
from talos.upgrade.slots.systemd_boot.databases import NO_UPDATES
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.release import MAX_LOADER, check_programs

DATA = Path("tests/data/authenticode")


def make_firmware(folder: Path, *, secure_boot: bool) -> Firmware:
    folder.mkdir()
    firmware = Firmware(settings=EfiVariables(folder), databases=EfiVariables(folder, "databases"))
    firmware.settings.make("SecureBoot", bytes([secure_boot]))
    return firmware


def test_a_release_without_a_uki(tmp_path: Path) -> None:
    release = make_release(tmp_path, FILES)
    reason = (
        "image installer:v1.15.1: it lacks vmlinuz.efi, the signed UKI, from which this machine is started "
        r"\(make a release with one: nix run .#sign-release\)"
    )
    with pytest.raises(UserError, match=reason):
        check_programs(release, make_firmware(tmp_path / "firmware", secure_boot=False), NO_UPDATES)
    check_parts(release)


def test_a_release_with_a_uki_alone(tmp_path: Path) -> None:
    release = make_release(tmp_path, {"vmlinuz.efi": make_uki("v1.15.1")})
    check_programs(release, make_firmware(tmp_path / "off", secure_boot=False), NO_UPDATES)
    with pytest.raises(UserError, match=r"vmlinuz\.efi: Secure Boot is on: it is not signed"):
        check_programs(release, make_firmware(tmp_path / "on", secure_boot=True), NO_UPDATES)
    with pytest.raises(
        UserError, match="it lacks vmlinuz, initramfs, cmdline, which this machine is started"
    ):
        check_parts(release)


def test_a_release_whose_boot_loader_would_not_be_started(tmp_path: Path) -> None:
    signed = (DATA / "signed.efi").read_bytes()
    firmware = make_firmware(tmp_path / "on", secure_boot=True)
    owner = x509.load_pem_x509_certificate((DATA / "certificate.pem").read_bytes())
    firmware.databases.make("db", make_signature_list([owner], UUID(int=1)))
    for loader, reason in (
        (
            make_uki("v1.15.1"),
            r"image installer:v1\.15\.1: systemd-boot\.efi: Secure Boot is on: it is not signed",
        ),
        (b"MZ".ljust(MAX_LOADER + 1), r"its systemd-boot\.efi has more than 16777216 bytes"),
    ):
        folder = tmp_path / str(len(loader))
        folder.mkdir()
        release = make_release(folder, {"vmlinuz.efi": signed, "systemd-boot.efi": loader})
        with pytest.raises(UserError, match=reason):
            check_programs(release, firmware, NO_UPDATES)
