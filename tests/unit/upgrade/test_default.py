"""A default that does not start: what runs instead is kept, and the reason shown."""

from dataclasses import replace

import pytest
import trio

from talos.machined.logs.last_boot import LastBoot
from talos.system.block.meta import COPY, make_meta
from talos.system.errors import UserError
from talos.system.version import get_version
from talos.upgrade.state import ATTEMPTS, IDLE, Phase

from .machine import FakeSlots, Machine


async def test_a_default_that_does_not_boot_is_named_and_what_runs_is_kept(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await (await machine.boot()).bless()
    machine.slots.default = "A"  # GRUB takes the other slot where it can't start the default
    upgrader = await machine.boot()
    text = "slot B is the default, but slot A was started"
    assert upgrader.fallback.startswith(text)
    assert text in "".join(machine.lines)
    machine.slots.default = "B"
    await upgrader.roll_back()
    assert (machine.slots.default, machine.slots.next) == ("A", "B")


PANIC = LastBoot(cause="kernel panic: no")


async def test_a_default_that_does_not_come_up_is_given_up(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await (await machine.boot()).bless()
    machine.slots.reads = 0
    await (await machine.boot()).confirm()
    assert (machine.slots.count, machine.slots.reads) == (0, 1), "BOOT is mounted once to be read"
    for _ in range(ATTEMPTS):
        assert "/B/" in machine.slots.boot()
    upgrader = await machine.boot(last=PANIC)
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert (machine.slots.default, machine.slots.count) == ("A", 0)
    assert (upgrader.current.phase, upgrader.current.slot) == (Phase.REVERTED, "B")
    assert upgrader.current.reason == "slot B did not come up in 3 starts: kernel panic: no"
    assert machine.published[-1].error.message == f"reverted: {upgrader.current.reason}"
    assert "was reverted" in machine.lines[-1]
    assert upgrader.fallback == ""
    with pytest.raises(UserError, match=r"slot B holds v1\.15\.1, which was reverted"):
        await upgrader.roll_back()


async def test_a_power_cut_while_a_default_is_given_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.slots.default, machine.slots.count = "B", ATTEMPTS
    upgrader = await machine.boot(last=PANIC)

    async def cut(_: FakeSlots, __: str) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(FakeSlots, "make_default", cut)
        with pytest.raises(OSError, match="power cut"):
            await upgrader.confirm()
    upgrader = await machine.boot()
    assert upgrader.running == "A", "GRUB starts what it did before"
    await upgrader.confirm()
    assert (machine.slots.default, machine.slots.count) == ("A", 0)
    assert "kernel panic: no" in upgrader.current.reason


async def test_after_both_slots_the_default_is_started_and_kept(machine: Machine) -> None:
    started = [machine.slots.boot()[12] for _ in range(8)]
    assert started == [*"AAABBBAA"]
    upgrader = await machine.boot(last=PANIC)
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert (machine.slots.default, machine.slots.count, upgrader.current) == ("A", 0, IDLE)
    assert "neither slot came up in 3 starts" in machine.lines[-1]


async def test_a_slot_that_a_person_chose_is_no_reason_to_give_up_the_default(machine: Machine) -> None:
    upgrader = await machine.boot()
    upgrader.running = "B"
    await upgrader.confirm()
    assert (machine.slots.default, machine.slots.count, upgrader.current) == ("A", 0, IDLE)


async def test_what_grub_wrote_to_one_half_of_a_mirror_is_written_to_both(machine: Machine) -> None:
    machine.slots.is_equal = False  # a slot on trial was started, which is not counted
    upgrader = await machine.boot()
    machine.slots.count = 0
    await upgrader.confirm()
    assert machine.slots.is_equal


async def test_a_disk_that_missed_an_upgrade_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await machine.boot()).roll_back()
    await (await machine.boot()).bless()
    upgrader = await machine.boot()
    assert upgrader.fallback.startswith(f"slot B holds v1.15.1, but {get_version().tag} was started")
    version = replace(get_version(), tag="v1.15.1")
    monkeypatch.setattr("talos.upgrade.node.get_version", lambda: version)
    assert upgrader.fallback == ""


async def test_a_lost_config_gets_the_default_that_it_had(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await (await machine.boot()).bless()
    machine.slots.is_damaged, machine.slots.default = True, "A"  # what GRUB starts without a config
    upgrader = await machine.boot()
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert machine.slots.default == "B"
    assert machine.slots.versions.keys() >= {"A", "B"}
    assert machine.slots.versions["B"] == "v1.15.1"
    assert "damaged and is written anew" in machine.lines[-1]


async def test_a_full_meta_does_not_keep_what_works_from_being_the_default(machine: Machine) -> None:
    machine.slots.default, machine.slots.count = "B", ATTEMPTS
    machine.meta.write_bytes(make_meta({12: bytes(COPY - 100)}).ljust(1 << 20, b"\0"))
    upgrader = await machine.boot(last=PANIC)
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert (machine.slots.default, machine.slots.count, upgrader.current.phase) == ("A", 0, Phase.REVERTED)
