"""Sequences: order, failure, takeover."""

import pytest
import trio
import trio.testing

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2 as pb
from talos.machined.boot.sequence import Phase, Sequencer, SequenceReplacedError, Task, TaskFailedError
from talos.machined.node.events import EventLog
from talos.machined.node.ports.power import SequenceLockedError
from talos.system.logging import Log


def quiet() -> Log:
    return Log(write=lambda _: None)


async def events_of(log: EventLog) -> list[str]:
    """Every event so far: what it is about, and whether it began or ended."""
    log.publish(pb.RestartEvent())
    found: list[str] = []
    async with log.follow(tail=-1) as events:
        async for event in events:
            match event.payload:
                case pb.SequenceEvent() as it:
                    found.append(f"{it.sequence} {pb.SequenceEvent.Action.Name(it.action)}")
                case pb.PhaseEvent() as it:
                    found.append(f"{it.phase} {pb.PhaseEvent.Action.Name(it.action)}")
                case pb.TaskEvent() as it:
                    found.append(f"{it.task} {pb.TaskEvent.Action.Name(it.action)}")
                case pb.RestartEvent(cmd=0):
                    break
                case _:
                    pass
    return found


async def succeed() -> None:
    await trio.lowlevel.checkpoint()


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise OSError(28, "No space left on device")


async def test_events_of_phases_and_tasks_are_in_order() -> None:
    events = EventLog()
    phases = (Phase("first", (Task("one", succeed),)), Phase("second", (Task("two", succeed),)))
    await Sequencer(events, quiet()).run("boot", phases)
    assert await events_of(events) == [
        "boot START", "first START", "one START", "one STOP", "first STOP",
        "second START", "two START", "two STOP", "second STOP", "boot STOP",
    ]  # fmt: skip


async def test_a_failure_ends_the_sequence_and_names_the_task() -> None:
    events = EventLog()
    sequencer = Sequencer(events, quiet())
    phases = (
        Phase("first", (Task("one", fail), Task("other", succeed))),
        Phase("second", (Task("two", fail),)),
    )
    with pytest.raises(TaskFailedError, match=r"task one of phase first failed: .*No space left"):
        await sequencer.run("boot", phases)
    assert (await events_of(events))[-1] == "boot NOOP"
    assert sequencer.running == ""
    await sequencer.run("again", ())


async def test_a_phase_may_fail() -> None:
    events = EventLog()
    phases = (Phase("first", (Task("one", fail),), may_fail=True), Phase("second", (Task("two", succeed),)))
    await Sequencer(events, quiet()).run("boot", phases)
    assert (await events_of(events))[-1] == "boot STOP"


async def test_a_boot_that_waits_yields_to_a_reboot() -> None:
    sequencer = Sequencer(EventLog(), quiet())

    async def boot() -> None:
        with pytest.raises(SequenceReplacedError):
            await sequencer.run("boot", (Phase("first", (Task("one", trio.sleep_forever),)),))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(boot)
        await trio.testing.wait_all_tasks_blocked()
        sequencer.reserve("reboot")
        with pytest.raises(SequenceLockedError):
            sequencer.reserve("reset")


async def test_takeover() -> None:
    events = EventLog()
    sequencer = Sequencer(events, quiet())
    ended: list[str] = []

    async def install() -> None:
        try:
            await sequencer.run("install", (Phase("first", (Task("one", trio.sleep_forever),)),))
        except SequenceReplacedError:
            ended.append("install")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(install)
        await trio.testing.wait_all_tasks_blocked()
        assert sequencer.is_locked
        with pytest.raises(SequenceLockedError) as locked:
            sequencer.reserve("reboot")
        sequencer.reserve("shutdown", takeover=True)
        await sequencer.run("shutdown", (Phase("only", (Task("two", succeed),)),))
        async with events.follow(tail=-1, actor_id=locked.value.actor) as refusals:
            refusal = (await anext(refusals)).payload
    error = common_pb2.Error(
        code=common_pb2.LOCKED, message="sequence not started: locked, install is running"
    )
    assert refusal == pb.SequenceEvent(sequence="reboot", action=pb.SequenceEvent.NOOP, error=error)
    assert ended == ["install"]
    assert (await events_of(events))[-1] == "shutdown STOP"


async def test_a_machine_that_waits_for_its_config_reboots() -> None:
    sequencer = Sequencer(EventLog(), quiet())
    replaced: list[str] = []

    async def initialize() -> None:
        try:
            await sequencer.run("initialize", (Phase("config", (Task("loadConfig", trio.sleep_forever),)),))
        except SequenceReplacedError as error:
            replaced.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(initialize)
        await trio.testing.wait_all_tasks_blocked()
        sequencer.reserve("reboot")
        await sequencer.run("reboot", (Phase("only", (Task("one", succeed),)),))
    assert replaced == ["initialize"]
