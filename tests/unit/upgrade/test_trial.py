"""The upgrader over reboots: a trial, its verdict, and what becomes of it when the machine dies."""

from dataclasses import replace
from functools import partial

import pytest
import trio

from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.meta_store import MetaStore
from talos.system.block.meta import COPY
from talos.system.errors import UserError
from talos.upgrade.state import LABEL_TAG, STATE_TAG, Phase

from .machine import NOTHING, Machine


async def test_back_and_forth(machine: Machine) -> None:
    for old, new in (("A", "B"), ("B", "A"), ("A", "B")):
        upgrader = await machine.boot()
        assert upgrader.running == old
        await upgrader.roll_back()
        assert await upgrader.meta.get(LABEL_TAG) == old.encode()
        upgrader = await machine.boot()
        assert (upgrader.running, upgrader.current.phase) == (new, Phase.TRIAL)
        assert machine.slots.default == old
        await upgrader.bless()
        assert machine.slots.default == new
        assert await upgrader.meta.get(LABEL_TAG) is None
        assert await upgrader.meta.get(12) == b"kept"


async def test_what_is_installed_and_not_booted_is_taken_back(machine: Machine) -> None:
    upgrader = await machine.boot()
    await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.STAGED, "B")
    await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.REVERTED, "")
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    assert upgrader.current.reason == "rolled back by hand"
    assert await upgrader.meta.get(LABEL_TAG) is None


async def test_a_trial_that_dies_is_reverted_by_the_next_boot(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    assert (await machine.boot()).running == "B"
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    assert "ended before its self-check" in upgrader.current.reason
    assert machine.published[-1].error.message == f"reverted: {upgrader.current.reason}"
    assert "was reverted" in "".join(machine.lines)
    with pytest.raises(UserError, match="which was reverted"):
        await upgrader.roll_back()


TRIAL_LOG = LastBoot(log=b"x", was_trial=True)


@pytest.mark.parametrize(
    ("last", "staged", "on_trial"),
    [
        (LastBoot(cause="kernel panic: no"), "kernel panic: no", "kernel panic: no"),
        (None, "it left no reason", "it left no reason"),
        (
            NOTHING,
            "an unknown reset or power cut, which left no trace",
            "an unknown reset or power cut during the trial",
        ),
        (
            TRIAL_LOG,
            "an unknown reset or power cut, while its kernel ran",
            "an unknown reset or power cut during the trial",
        ),
        (LastBoot(log=b"x", is_orderly=True), "its kernel left no trace", "its kernel left no trace"),
        (replace(TRIAL_LOG, is_orderly=True), "it was restarted", "it was restarted"),
    ],
)
async def test_what_the_last_boot_left_is_the_reason(
    machine: Machine, last: LastBoot | None, staged: str, on_trial: str
) -> None:
    await (await machine.boot()).roll_back()
    machine.slots.boot()  # and its META is not reached
    upgrader = await machine.boot(last=last)
    assert upgrader.current.reason == f"v1.15.1 in slot B did not start: {staged}"
    await upgrader.meta.delete(STATE_TAG)
    await (await machine.boot()).roll_back()
    await machine.boot()
    reason = (await machine.boot(last=last)).current.reason
    assert reason == f"v1.15.1 in slot B ended before its self-check was done: {on_trial}"


async def test_a_rollback_of_a_trial_only_ends_it(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await upgrader.roll_back()
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.reason) == ("A", "rolled back by hand")


@pytest.mark.parametrize("first", ["bless", "roll_back", "revert"])
@pytest.mark.parametrize("second", ["bless", "roll_back", "revert"])
async def test_two_verdicts_at_once_are_one(machine: Machine, first: str, second: str) -> None:
    """A person rolls back while the self-check ends. A rollback after the blessing is one of its own."""
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    calls = {
        "bless": upgrader.bless,
        "roll_back": upgrader.roll_back,
        "revert": partial(upgrader.revert, "no network"),
    }
    async with trio.open_nursery() as nursery:
        nursery.start_soon(calls[first])
        await trio.lowlevel.checkpoint()
        nursery.start_soon(calls[second])
    state = upgrader.current
    assert (machine.slots.default, state.phase) == {
        "bless": ("B", Phase.STAGED if second == "roll_back" else Phase.BLESSED),
        "roll_back": ("A", Phase.REVERTED),
        "revert": ("A", Phase.REVERTED),
    }[first]
    assert machine.slots.next == ("A" if state.phase is Phase.STAGED else "")
    assert (await machine.boot()).running == ("B" if state.phase is Phase.BLESSED else "A")


@pytest.mark.parametrize("steps", range(12))
async def test_a_caller_who_leaves_has_a_rollback_or_none(machine: Machine, steps: int) -> None:
    """At each step, of what is to be tried, what is installed, and what is on trial."""
    for before in (Phase.IDLE, Phase.STAGED, Phase.TRIAL):
        upgrader = await machine.boot()
        if before is not Phase.IDLE:
            await upgrader.roll_back()
        if before is Phase.TRIAL:
            upgrader = await machine.boot()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(upgrader.roll_back)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        state = upgrader.current
        assert machine.slots.next == (state.slot if state.phase is Phase.STAGED else ""), (before, state)
        await upgrader.meta.delete(STATE_TAG)
        machine.slots.default, machine.slots.next = "A", ""


async def test_nothing_is_installed_between_a_revert_and_the_reboot(machine: Machine) -> None:
    """The slot that it goes back to would be written."""
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await upgrader.revert("no network")
    with pytest.raises(UserError, match=r"v1\.15\.1 was reverted, this machine reboots \(wait until slot A"):
        upgrader.check_start()
    await upgrader.roll_back()
    assert (machine.slots.default, machine.slots.next) == ("A", "")
    upgrader = await machine.boot()
    assert upgrader.running == "A"
    upgrader.check_start()


async def test_a_full_meta_ends_no_boot(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    left = COPY - sum(len(value) + 64 for value in upgrader.meta.values.values())
    await upgrader.meta.set(13, bytes(left))
    with pytest.raises(UserError, match="there is room for"):
        await upgrader.revert("x" * 1000)
    for _ in range(2):
        upgrader = await machine.boot(last=LastBoot(cause="kernel panic: " + "x" * 1000))
        assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
        assert "can't be kept in META" in machine.lines[-2] + machine.lines[-1]
    await upgrader.meta.delete(13)
    assert "ended before its self-check" in (await machine.boot()).current.reason


async def test_a_power_cut_while_it_is_blessed(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await machine.boot()
    machine.slots.default = "B"
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.phase) == ("B", Phase.TRIAL)
    await upgrader.revert("no network")
    assert (await machine.boot()).running == "A"


async def test_an_empty_slot_and_another_medium_are_refused(machine: Machine) -> None:
    del machine.slots.versions["B"]
    with pytest.raises(UserError, match="slot B holds no system"):
        await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    upgrader.running = ""
    with pytest.raises(UserError, match="was not started from a slot"):
        await upgrader.roll_back()


async def test_garbage_in_meta_is_dropped(machine: Machine) -> None:
    upgrader = await machine.boot()
    await upgrader.meta.set(STATE_TAG, b"\xff garbage")
    upgrader = await machine.boot()
    assert upgrader.current.phase is Phase.IDLE
    assert await upgrader.meta.get(STATE_TAG) is None


async def test_a_revert_is_reported_once_after_it(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await (await machine.boot()).revert("self-check: no")
    reported: list[int] = []
    for _ in range(3):
        before = len(machine.published)
        upgrader = await machine.boot()
        assert upgrader.current.phase is Phase.REVERTED
        reported.append(len(machine.published) - before)
        await upgrader.confirm()
    assert reported == [1, 0, 0]


async def test_a_machine_without_meta_begins(machine: Machine) -> None:
    upgrader = await machine.boot()
    upgrader.meta, upgrader.at_start = MetaStore(), None
    assert not await upgrader.begin(None)
    assert upgrader.has_begun
