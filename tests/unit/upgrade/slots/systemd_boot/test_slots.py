"""Releases for a machine that systemd-boot starts."""

from pathlib import Path

import pytest
from tests.unit.disks.install.test_release import FILES, make_release
from tests.unit.pki.programs import make_uki

from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots.port import check_parts
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import check_uki


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
        check_uki(release, make_firmware(tmp_path / "firmware", secure_boot=False))
    check_parts(release)


def test_a_release_with_a_uki_alone(tmp_path: Path) -> None:
    release = make_release(tmp_path, {"vmlinuz.efi": make_uki("v1.15.1")})
    check_uki(release, make_firmware(tmp_path / "off", secure_boot=False))
    with pytest.raises(UserError, match=r"vmlinuz\.efi: Secure Boot is on: it is not signed"):
        check_uki(release, make_firmware(tmp_path / "on", secure_boot=True))
    with pytest.raises(
        UserError, match="it lacks vmlinuz, initramfs, cmdline, which this machine is started"
    ):
        check_parts(release)
