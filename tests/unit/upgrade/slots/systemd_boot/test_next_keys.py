"""Volumes that nothing but a key for the present PCR 7 opens: an upgrade that changes it, and its verdict."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import override

import pytest
import trio
import trio.testing
from tests.unit.system.tpm import logs

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.machined.controllers.block.next_keys import NextKeysController
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.system.block.luks_header import LuksHeader, NextKey
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.release import features
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.open_keys import OpenKey
from talos.upgrade.slots.systemd_boot import unsealing

from .machine import Machine
from .test_databases import make_secure_machine, refuse, trust, upgrade
from .test_forecast import ADDED, NOW, OTHER, VALUE, WITH_DB, seal_to
from .test_pcr7_model import OURS

REVOKED = refuse(OTHER)


@dataclass
class Volume(OpenKey):
    """The key of a volume, and what its header has; ``reason`` is why it can't be sealed."""

    value: bytes = VALUE
    further: dict[int, NextKey] = field(default_factory=dict[int, NextKey])
    reason: str = ""
    settled: list[set[bytes]] = field(default_factory=list[set[bytes]])

    @property
    @override
    def slot(self) -> int | None:
        return 0

    @override
    async def seal(self, pcr: int, values: Sequence[bytes]) -> Sequence[NextKey]:
        await trio.lowlevel.checkpoint()
        assert pcr == 7
        if self.reason:
            raise UserError(self.reason)
        return [NextKey(0, seal_to(value)) for value in values]

    @override
    async def write(self, keys: Sequence[NextKey]) -> None:
        await trio.lowlevel.checkpoint()
        self.further |= {len(self.further) + place: key for place, key in enumerate(keys)}

    @override
    async def has_next(self) -> bool:
        await trio.lowlevel.checkpoint()
        return bool(self.further)

    @override
    async def settle(self, pcr: int, values: Collection[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.settled.append(set(values))

    @property
    def header(self) -> LuksHeader:
        """With one slot, which the TPM opens."""
        sealed = {0: seal_to(self.value)}
        return LuksHeader(slots=(0,), data=b"", sealed_by_tpm=sealed, next_keys=self.further)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With Secure Boot, which was measured."""
    machine = make_secure_machine(tmp_path)
    machine.firmware = replace(machine.firmware, measured=logs.measure(tmp_path / "measured", NOW))
    return machine


@pytest.fixture
def volume(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Volume:
    volume = Volume()
    machine.keys["STATE"] = volume

    def read_header(device: str) -> LuksHeader:
        assert device == make_status().location
        return volume.header

    monkeypatch.setattr(unsealing, "read_header", read_header)
    return volume


async def start(machine: Machine) -> Upgrades:
    """The next boot, in which the volume was opened."""
    upgrades = await machine.boot()
    await put(upgrades.state, kinds.VOLUME_STATUS, "STATE", make_status())
    return upgrades


def make_status() -> VolumeStatusSpec:
    return VolumeStatusSpec(
        phase=enums.VOLUME_PHASE_READY,
        location="/dev/vda5",
        encryption_provider=enums.ENCRYPTION_PROVIDER_LUKS2,
    )


def measure(machine: Machine, db: bytes, dbx: bytes = b"") -> bytes:
    """What firmware measures at the next start."""
    measured = logs.measure_secure_boot(db, dbx, OURS)
    logs.measure(machine.folder / "measured", measured)
    return logs.replay(measured)


async def test_keys_for_all_starts_are_written_before_the_database(machine: Machine, volume: Volume) -> None:
    await upgrade(machine, await start(machine), db=trust(OTHER))
    assert [key.sealed for key in volume.further.values()] == [seal_to(WITH_DB)]
    keys = machine.lines.index("volumes have keys for the values that PCR 7 will have")
    assert keys < machine.lines.index("adding to the firmware's database db")


async def test_what_leaves_pcr_7_as_it_is_needs_no_keys(machine: Machine, volume: Volume) -> None:
    await upgrade(machine, await start(machine))
    assert volume.further == {}


async def test_a_key_that_can_not_be_sealed_is_the_reason_of_a_refusal(
    machine: Machine, volume: Volume
) -> None:
    volume.reason = "the LUKS2 header has no room"
    before = machine.firmware.databases.read("db")
    with pytest.raises(
        UserError, match=r"STATE: slot 0 .tpm.: PCR 7 will be .*; it can't be sealed .*no room"
    ):
        await upgrade(machine, await start(machine), db=trust(OTHER))
    assert (machine.firmware.databases.read("db"), volume.further) == (before, {})


async def test_a_release_that_does_not_try_such_keys_is_refused(
    machine: Machine, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "NEXT_KEYS", "another")
    with pytest.raises(UserError, match=f"slot 0 .tpm.: PCR 7 will be {WITH_DB.hex()} in the trial"):
        await upgrade(machine, await start(machine), db=trust(OTHER))
    assert volume.further == {}


async def test_nothing_is_settled_before_the_verdict(machine: Machine, volume: Volume) -> None:
    upgrades = await start(machine)
    await upgrade(machine, upgrades, db=trust(OTHER))
    assert not await upgrades.settle_keys()
    machine.firmware = replace(machine.firmware)
    value = measure(machine, ADDED)
    trial = await start(machine)
    assert not await trial.settle_keys()
    assert volume.settled == []
    await trial.bless()
    assert await trial.settle_keys()
    assert volume.settled == [{value}]


async def test_what_a_revocation_will_change_is_kept(machine: Machine, volume: Volume) -> None:
    await upgrade(machine, await start(machine), db=trust(OTHER), dbx=REVOKED)
    value = measure(machine, ADDED)
    trial = await start(machine)
    await trial.bless()
    await trial.settle_keys()
    assert volume.settled[-1] == {
        value,
        measure(machine, ADDED, machine.firmware.databases.read("dbx") or b""),
    }


async def test_a_trial_that_was_reverted_settles_nothing(machine: Machine, volume: Volume) -> None:
    await upgrade(machine, await start(machine), db=trust(OTHER))
    measure(machine, ADDED)
    trial = await start(machine)
    await trial.revert("a test")
    assert not await trial.settle_keys(), "the machine reboots"
    before = await start(machine)
    assert await before.settle_keys()
    assert volume.settled == [{WITH_DB}]


async def test_without_a_forecast_nothing_is_removed(machine: Machine, volume: Volume) -> None:
    await upgrade(machine, await start(machine), db=trust(OTHER))
    assert (await start(machine)).running == "B"
    back = await start(machine)  # the log is that of the boot before
    machine.firmware.measured.log.unlink()
    assert await back.settle_keys()
    assert volume.settled == []


async def test_volumes_are_settled_as_they_are_opened(machine: Machine, volume: Volume) -> None:
    upgrades = await machine.boot()
    volume.further[31] = NextKey(0, seal_to(WITH_DB))
    async with trio.open_nursery() as nursery:
        controller = NextKeysController(upgrades, Log(write=machine.lines.append))
        await nursery.start(run_controllers, upgrades.state, [controller])
        await trio.testing.wait_all_tasks_blocked()
        assert volume.settled == []
        await put(upgrades.state, kinds.VOLUME_STATUS, "STATE", make_status())
        while not volume.settled:
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert volume.settled == [{VALUE}]
