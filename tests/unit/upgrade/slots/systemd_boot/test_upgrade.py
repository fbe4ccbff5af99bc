"""Upgrades of a machine that systemd-boot starts, over its boots: states and texts as with GRUB."""

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.resource import kinds
from talos.resource.changes import put
from talos.system.block.luks_header import MAGICS, TPM_TOKEN
from talos.system.errors import UserError
from talos.upgrade.session import Upgrades
from talos.upgrade.state import Phase

from .machine import NEW, OLD, Machine


async def test_an_upgrade_its_trial_and_its_verdict(machine: Machine) -> None:
    first = await machine.boot()
    await first.confirm()
    await machine.upgrade(first, "v1.15.1")
    assert "v1.15.1 is in slot B, which the next reboot tries" in machine.lines
    trial = await machine.boot()
    assert (trial.current.phase, trial.running, trial.is_guarded) == (Phase.TRIAL, "B", True)
    await trial.bless()
    after = await machine.boot()
    assert (after.current.phase, after.running, after.is_guarded) == (Phase.BLESSED, "B", False)
    await after.confirm()
    assert (await after.slots.read()).default == "B"


async def test_a_new_boot_loader_stays_with_a_good_verdict(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1", NEW)
    assert any("is tried once, by the firmware's entry Boot0001" in line for line in machine.lines)
    trial = await machine.boot()
    assert (machine.started_by, machine.loader, trial.running) == (NEW, OLD, "B")
    await trial.bless()
    assert machine.loader == NEW
    assert machine.firmware.settings.list() == ["BootOrder"]
    assert (await machine.boot()).running == "B"


async def test_a_boot_loader_that_does_not_start_is_left_out(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1", NEW)
    trial = await machine.boot(broken=NEW)
    assert (machine.started_by, trial.current.phase, trial.running) == (OLD, Phase.TRIAL, "B")
    await trial.bless()
    assert any("the upgrade's boot loader did not come up" in line for line in machine.lines)
    after = await machine.boot()
    assert (machine.loader, after.current.phase, after.running) == (OLD, Phase.BLESSED, "B")
    assert machine.firmware.settings.list() == ["BootOrder"]


async def test_a_boot_loader_goes_with_a_system_that_is_reverted(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1", NEW)
    await (await machine.boot()).revert("apid is not healthy")
    after = await machine.boot()
    await after.confirm()
    assert (machine.started_by, machine.loader, after.running) == (OLD, OLD, "A")
    assert machine.firmware.settings.list() == ["BootOrder"]
    await machine.upgrade(after, "v1.15.2", NEW)
    await machine.boot()
    assert machine.started_by == NEW, "it did start"


async def test_an_older_release_brings_no_boot_loader(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.14.9", NEW, force=True)
    assert machine.firmware.settings.list() == ["BootOrder"]
    await (await machine.boot()).bless()
    assert machine.loader == OLD


@pytest.mark.parametrize("is_ended_by_itself", [False, True])
async def test_a_trial_that_fails(machine: Machine, is_ended_by_itself: bool) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    trial = await machine.boot()
    assert trial.running == "B"
    if is_ended_by_itself:
        await trial.revert("apid is not healthy")
    after = await machine.boot()
    assert (after.current.phase, after.running) == (Phase.REVERTED, "A")
    await after.confirm()
    assert (await machine.boot()).running == "A"
    with pytest.raises(UserError, match=r"slot B holds v1\.15\.1, which was reverted"):
        await after.roll_back()
    await machine.upgrade(after, "v1.15.2")
    assert (await machine.boot()).running == "B"


async def test_back_to_the_system_before(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    await (await machine.boot()).roll_back()
    trial = await machine.boot()
    assert (trial.current.phase, trial.running) == (Phase.TRIAL, "A")
    await trial.bless()
    assert (await machine.boot()).running == "A"


async def test_what_is_staged_is_taken_back(machine: Machine) -> None:
    upgrades = await machine.boot()
    await machine.upgrade(upgrades, "v1.15.1")
    await upgrades.roll_back()
    after = await machine.boot()
    assert (after.current.phase, after.running) == (Phase.REVERTED, "A")


async def test_lost_settings_get_the_default_that_they_had(machine: Machine) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    (machine.target.root("EFI") / "loader/loader.conf").write_bytes(b"\xff\0")
    after = await machine.boot()
    await after.confirm()
    assert (await after.slots.read()).default == "B"
    assert any(
        "the boot loader's settings were damaged and are written anew" in line for line in machine.lines
    )


PARTS = ("sealed_blob_private", "sealed_blob_public", "policy_hash", "key_name")


def write_header(path: Path, sealed: Mapping[str, Any]) -> None:
    """A LUKS2 header whose one slot has a key that a TPM has sealed."""
    cipher, size = "aes-xts-plain64", 1 << 14
    found = {
        "keyslots": {"0": {"type": "luks2", "kdf": {"type": "pbkdf2"}, "area": {"encryption": cipher}}},
        "segments": {"0": {"type": "crypt", "encryption": cipher, "offset": str(2 * size)}},
        "tokens": {"0": {"type": TPM_TOKEN, "UserData": sealed}},
    }
    text = json.dumps(found).encode().ljust(size - 4096, b"\0")
    fields = (MAGICS[0], 2, size, 1, b"", b"sha256", b"", b"", b"", 0, b"")
    binary = struct.pack(">6sHQQ48s32s64s40s48sQ184s", *fields)
    checksum = hashlib.sha256(binary.ljust(4096, b"\0") + text).digest()
    path.write_bytes(((binary + checksum).ljust(4096, b"\0") + text).ljust(2 * size, b"\0"))


async def encrypt(upgrades: Upgrades, device: Path) -> None:
    """EPHEMERAL is open, by a key that is bound to the running image."""
    spec = VolumeStatusSpec(
        phase=enums.VOLUME_PHASE_READY,
        location=str(device),
        encryption_provider=enums.ENCRYPTION_PROVIDER_LUKS2,
    )
    await put(upgrades.state, kinds.VOLUME_STATUS, "EPHEMERAL", spec)
    write_header(device, {"alg": "sha256", "pcrs": [4], **dict.fromkeys(PARTS, "")})


CLOSED = r"it would not open the volume EPHEMERAL: slot 0 \(tpm\): PCR 4 is another one with each image"


async def test_a_release_that_would_not_open_a_volume(machine: Machine, tmp_path: Path) -> None:
    upgrades, device = await machine.boot(), tmp_path / "vda6"
    await encrypt(upgrades, device)
    with pytest.raises(UserError, match=rf"vmlinuz\.efi: {CLOSED}"):
        await machine.upgrade(upgrades, "v1.15.1")
    assert (await upgrades.slots.read()).versions == {"A": "v1.15.0"}
    device.write_bytes(b"no header")
    await machine.upgrade(upgrades, "v1.15.2")


async def test_a_rollback_that_would_not_open_a_volume(machine: Machine, tmp_path: Path) -> None:
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    upgrades = await machine.boot()
    await encrypt(upgrades, tmp_path / "vda6")
    with pytest.raises(UserError, match=rf"slot A: {CLOSED}"):
        await upgrades.roll_back()
    assert (await machine.boot()).running == "B"
