"""What a verdict does beside the state: events, the kept logs, META's label, those who follow the state."""

from dataclasses import replace

import pytest
import trio

from talos.api.common.common_pb2 import Code
from talos.api.machine import machine_pb2 as pb
from talos.system.errors import UserError
from talos.upgrade.node import SELF_CHECK
from talos.upgrade.slots.grub.disk import GrubState
from talos.upgrade.state import ATTEMPTS, LABEL_TAG, Phase

from .machine import FakeSlots, Machine


async def test_a_revert_is_a_fatal_event_of_the_upgrade_and_keeps_the_logs(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    machine.published.clear()
    await upgrader.revert("no network")
    (event,) = machine.published
    assert (event.sequence, event.action) == ("upgrade", pb.SequenceEvent.NOOP)
    assert (event.error.code, event.error.message) == (Code.FATAL, "reverted: no network")
    assert "the upgrade to v1.15.1 was reverted" in machine.lines[-1]
    assert "no network" in machine.lines[-1]
    assert machine.kept == ["no network"]
    await upgrader.revert("a second one")
    assert (machine.kept, len(machine.published)) == (["no network"], 1)


async def test_a_blessing_ends_the_phase_of_the_self_check(machine: Machine) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    machine.published.clear()
    await upgrader.bless()
    (event,) = machine.published
    assert (event.phase, event.action) == (SELF_CHECK, pb.PhaseEvent.STOP)
    assert "v1.15.1 in slot B is the default from now on" in machine.lines[-1]
    await upgrader.bless()
    assert len(machine.published) == 1, "it has its verdict"


async def test_a_default_of_which_nothing_is_known_is_given_up(machine: Machine) -> None:
    machine.slots.default, machine.slots.count = "B", ATTEMPTS
    del machine.slots.versions["B"]
    upgrader = await machine.boot(last=None)
    await upgrader.confirm()
    assert (upgrader.current.phase, upgrader.current.version) == (Phase.REVERTED, "unknown")
    assert upgrader.current.reason == "slot B did not come up in 3 starts: it left no reason"


@pytest.mark.parametrize("error", [UserError("is damaged"), OSError(5, "Input/output error")])
async def test_slots_that_can_not_be_read_do_not_end_the_boot_after_a_trial(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def read(_: FakeSlots) -> GrubState:
        await trio.lowlevel.checkpoint()
        raise error

    await (await machine.boot()).roll_back()
    machine.slots.boot()  # and its META is not reached
    with monkeypatch.context() as patch:
        patch.setattr(FakeSlots, "read", read)
        upgrader = await machine.boot(last=None)
    assert upgrader.current.reason == "v1.15.1 in slot B did not start: it left no reason"


async def test_the_label_names_the_slot_to_go_back_to(machine: Machine) -> None:
    upgrader = await machine.boot()
    await upgrader.meta.set(LABEL_TAG, b"B")
    await upgrader.roll_back()
    assert await upgrader.meta.get(LABEL_TAG) == b"A", "what another upgrade left is replaced"


async def test_who_follows_the_state_is_notified_of_each_change(machine: Machine) -> None:
    upgrader, phases = await machine.boot(), list[Phase]()
    upgrader.listen(lambda: phases.append(upgrader.current.phase))
    await upgrader.roll_back()
    assert phases == [Phase.STAGED]
    await upgrader.begin(None)
    assert phases[-1] is upgrader.current.phase
    assert len(phases) > 1, "of what the boot is, too"


async def test_keys_are_settled_once_it_is_known_what_the_boot_is(machine: Machine) -> None:
    upgrader = await machine.boot()
    assert not await replace(upgrader, at_start=None).settle_keys(), "META is not read yet"
    assert await upgrader.settle_keys()
    await upgrader.roll_back()
    assert not await upgrader.settle_keys(), "what is staged has no verdict"
