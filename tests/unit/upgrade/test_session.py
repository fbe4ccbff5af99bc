"""One call at a time, one writer at a time, and nothing half done for a caller who leaves."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from talos.api.definitions.network_pb2 import StatusSpec
from talos.api.machine import machine_pb2 as pb
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.upgrade.node import SELF_CHECK
from talos.upgrade.session import is_network_ready
from talos.upgrade.slots.port import Report, drop
from talos.upgrade.state import ATTEMPTS, BUSY, Phase

from .machine import FakeSlots, Machine
from .test_releases import make_release


@pytest.mark.parametrize(
    ("has_addresses", "has_connectivity"), [(False, False), (False, True), (True, False), (True, True)]
)
async def test_the_network_is_ready_with_addresses_and_connectivity(
    *, has_addresses: bool, has_connectivity: bool
) -> None:
    state = MemoryState()
    assert await is_network_ready(state) is False, "nothing is known yet"
    status = StatusSpec(address_ready=has_addresses, connectivity_ready=has_connectivity)
    await put(state, *ids.NETWORK_STATUS, status, owner="test")
    assert await is_network_ready(state) is (has_addresses and has_connectivity)


async def test_what_writes_a_system_keeps_others_from_it(machine: Machine, tmp_path: Path) -> None:
    upgrader = await machine.boot()
    install = await upgrader.prepare(make_release(tmp_path))
    async with upgrader.lock():
        with pytest.raises(UserError, match=BUSY):
            await install(drop)
        with pytest.raises(UserError, match=BUSY):
            await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.IDLE, "")
    await upgrader.roll_back()
    async with upgrader.lock():
        with pytest.raises(UserError, match=BUSY):
            await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.STAGED, "B")


async def test_a_verdict_waits_for_what_writes_a_system(machine: Machine) -> None:
    upgrader = await machine.boot()
    assert machine.slots.count == 1
    async with trio.open_nursery() as nursery, upgrader.lock():
        nursery.start_soon(upgrader.confirm)
        await trio.testing.wait_all_tasks_blocked()
        assert machine.slots.count == 1
    assert machine.slots.count == 0


async def test_an_install_makes_the_slot_that_runs_the_default(machine: Machine, tmp_path: Path) -> None:
    machine.slots.default, machine.slots.count = "B", ATTEMPTS
    upgrader = await machine.boot()
    assert upgrader.running == "A"
    await (await upgrader.prepare(make_release(tmp_path)))(drop)
    assert (machine.slots.default, machine.slots.next) == ("A", "B")


async def test_a_reverted_release_that_runs_can_be_left(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    await machine.boot()
    assert (await machine.boot()).current.phase is Phase.REVERTED
    machine.slots.default = "B"  # chosen at the boot loader's menu
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.phase) == ("B", Phase.REVERTED)
    await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.STAGED, "A")


async def test_a_rollback_that_is_taken_back_is_not_the_end_of_a_boot(machine: Machine) -> None:
    """This boot was a trial, but what was reverted in it is the other slot."""
    upgrader = await machine.boot()
    assert not replace(upgrader, at_start=None).is_over, "META is not read yet"
    await upgrader.roll_back()
    upgrader = await machine.boot()
    await upgrader.bless()
    await upgrader.roll_back()
    await upgrader.roll_back()
    assert (upgrader.current.phase, upgrader.current.slot, upgrader.running) == (Phase.REVERTED, "A", "B")
    upgrader.check_start()


async def test_without_slots_or_an_upgrade_none_is_another_than_the_default(machine: Machine) -> None:
    upgrader = await machine.boot()
    assert (upgrader.current.phase, upgrader.fallback) == (Phase.IDLE, "")
    assert not any("is the default, but" in line for line in machine.lines)
    await upgrader.roll_back()
    upgrader = await machine.boot()
    await upgrader.bless()
    assert replace(upgrader, running="").fallback == "", "a node that no slot was booted of"


async def test_a_start_that_ends_a_trial_is_distinguished(machine: Machine) -> None:
    upgrader = await machine.boot()
    assert await upgrader.begin(None) is False
    await upgrader.roll_back()
    machine.published.clear()
    assert await replace(upgrader, running="B").begin(None) is False
    (event,) = machine.published
    assert (event.phase, event.action) == (SELF_CHECK, pb.PhaseEvent.START)
    upgrader = replace(upgrader, running="A")
    assert await upgrader.begin(None) is True
    assert await upgrader.begin(None) is False, "it was ended before"


async def test_what_is_staged_is_taken_back_whole_for_a_caller_who_leaves(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrader = await machine.boot()
    await upgrader.roll_back()
    with trio.CancelScope() as call:
        leave_in_boot_once(monkeypatch, call.cancel)
        await upgrader.roll_back()
    assert (upgrader.current.phase, machine.slots.next) == (Phase.REVERTED, "")
    upgrader = await machine.boot()
    assert upgrader.current.phase is Phase.REVERTED


async def test_what_is_taken_back_is_announced(machine: Machine) -> None:
    upgrader = await machine.boot()
    await upgrader.roll_back()
    machine.published.clear()
    await upgrader.roll_back()
    (event,) = machine.published
    assert event.error.message == "reverted: rolled back by hand"


def leave_in_boot_once(monkeypatch: pytest.MonkeyPatch, leave: Callable[[], None]) -> None:
    """Have a caller leave while the boot loader gets the slot to boot once."""
    boot_once: Callable[..., Awaitable[None]] = FakeSlots.boot_once

    async def boot_once_and_leave(self: FakeSlots, slot: str, boot_loader: bytes, report: Report) -> None:
        leave()
        await boot_once(self, slot, boot_loader, report)

    monkeypatch.setattr(FakeSlots, "boot_once", boot_once_and_leave)
