"""A default that comes up no more where systemd-boot starts the slots, and what early init counts of it."""

import errno
from pathlib import Path

import pytest

from talos.machined.logs.last_boot import LastBoot
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.starts import NAME, StartCount, Starts
from talos.upgrade.state import IDLE, Phase

from .machine import Machine

PANIC = LastBoot(cause="kernel panic: no")
ONCE = "LoaderEntryOneShot"


async def make_default_b(machine: Machine) -> None:
    """Upgrade; the new system in slot B is confirmed."""
    await machine.upgrade(await machine.boot(), "v1.15.1")
    await (await machine.boot()).bless()
    await (await machine.boot()).confirm()
    assert machine.starts.read() == Starts()


async def test_a_default_that_does_not_come_up_is_given_up(machine: Machine) -> None:
    await make_default_b(machine)
    assert [machine.start().slot for _ in range(3)] == [*"BBB"]
    upgrades = await machine.boot(last=PANIC)
    assert (upgrades.running, upgrades.is_guarded) == ("A", True)
    await upgrades.confirm()
    assert (upgrades.current.phase, upgrades.current.slot) == (Phase.REVERTED, "B")
    assert upgrades.current.reason == "slot B did not come up in 3 starts: kernel panic: no"
    assert (await upgrades.slots.read()).default == "A"
    assert (machine.starts.read(), machine.firmware.loader.read(ONCE)) == (Starts(), None)
    with pytest.raises(UserError, match=r"slot B holds v1\.15\.1, which was reverted"):
        await upgrades.roll_back()
    after = await machine.boot()
    assert (after.running, after.is_guarded, after.fallback) == ("A", False, "")


async def test_after_both_slots_the_default_is_started_and_kept(machine: Machine) -> None:
    await make_default_b(machine)
    assert "".join(machine.start().slot for _ in range(8)) == "BBBAAABB"
    upgrades = await machine.boot(last=PANIC)
    await upgrades.confirm()
    assert (upgrades.running, upgrades.current.phase) == ("B", Phase.BLESSED)
    assert "neither slot came up in 3 starts" in machine.lines[-1]
    assert machine.starts.read() == Starts()


async def test_a_default_that_comes_up_in_its_third_start(machine: Machine) -> None:
    await make_default_b(machine)
    machine.start()
    assert not machine.starts.is_repeated()
    machine.start()
    upgrades = await machine.boot()
    assert (machine.starts.read(), upgrades.is_guarded) == (Starts("B", 3), True)
    await upgrades.confirm()
    assert [machine.start().slot for _ in range(3)] == [*"BBB"], "they are counted anew"


async def test_a_slot_that_leaves_no_trace_has_its_turns_counted(machine: Machine) -> None:
    """A kernel that panics before early init: the default comes next, and counts for it."""
    await make_default_b(machine)
    for _ in range(3):
        machine.start()
    started = ""
    for _ in range(4):
        counted = machine.starts.read()
        slot = machine.start().slot
        started += slot
        if slot == "A":
            machine.starts.reset()
            machine.starts.variables.make(NAME, f"{counted.slot}{counted.count}".encode())
            machine.firmware.loader.delete(ONCE)
    assert started == "ABAB"
    for _ in range(6):
        machine.start()
    assert machine.starts.read() == Starts("B", 6), "and no variable is written any more"


async def test_a_trial_is_not_counted(machine: Machine) -> None:
    first = await machine.boot()
    assert machine.starts.read() == Starts(), "there is one slot"
    await machine.upgrade(first, "v1.15.1")
    trial = await machine.boot()
    assert (trial.current.phase, machine.starts.read()) == (Phase.TRIAL, Starts())
    after = await machine.boot()
    assert (after.current.phase, machine.starts.read()) == (Phase.REVERTED, Starts("A", 1))


async def test_what_is_staged_before_a_confirmation_is_booted_on_trial(machine: Machine) -> None:
    await make_default_b(machine)
    for _ in range(2):
        machine.start()
    await machine.upgrade(await machine.boot(), "v1.15.2")
    assert machine.starts.read() == Starts()
    trial = await machine.boot()
    assert (trial.current.phase, trial.running) == (Phase.TRIAL, "A")


async def test_a_slot_that_a_person_chose_is_no_reason_to_give_up_the_default(machine: Machine) -> None:
    await make_default_b(machine)
    for _ in range(2):
        machine.start()
    machine.firmware.loader.make("LoaderEntryDefault", "talos-a.efi\0".encode("utf-16-le"))
    upgrades = await machine.boot()
    assert (upgrades.running, machine.starts.read()) == ("A", Starts("A", 1))
    await upgrades.confirm()
    assert (upgrades.current.phase, (await machine.boot()).running) == (Phase.BLESSED, "B")


async def test_a_power_cut_while_a_default_is_given_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_default_b(machine)
    for _ in range(3):
        machine.start()
    upgrades = await machine.boot(last=PANIC)

    def cut(_: StartCount) -> None:
        raise OSError(errno.EIO, "power cut")

    with monkeypatch.context() as patch:
        patch.setattr(StartCount, "reset", cut)
        with pytest.raises(OSError, match="power cut"):
            await upgrades.confirm()
    after = await machine.boot()
    await after.confirm()
    assert (after.running, machine.starts.read()) == ("A", Starts())
    assert after.current.reason == "slot B did not come up in 3 starts: kernel panic: no"


async def test_one_slot_is_started_again_and_again(machine: Machine) -> None:
    assert [machine.start().slot for _ in range(5)] == [*"AAAAA"]
    upgrades = await machine.boot(last=PANIC)
    await upgrades.confirm()
    assert (upgrades.current, machine.starts.read()) == (IDLE, Starts())


@pytest.mark.parametrize("value", [b"", b"B", b"B0", b"B7", b"C1", b"b1", b"B12", b"\xff\xff"])
def test_garbage_is_no_count(tmp_path: Path, value: bytes) -> None:
    count = StartCount(EfiVariables(tmp_path))
    assert count.read() == Starts()
    count.variables.make(NAME, value)
    assert (count.read(), count.is_repeated()) == (Starts(), False)


def test_a_variable_that_cannot_be_read_guards_nothing(tmp_path: Path) -> None:
    count = StartCount(EfiVariables(tmp_path))
    (tmp_path / f"{NAME}-{count.variables.vendor}").mkdir()
    assert not count.is_repeated()
