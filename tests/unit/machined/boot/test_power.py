"""Sequences: order, failure, takeover; and the two that end the machine, in time."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.machined.boot.power import DEADLINE, FLUSH_LIMIT, SYSTEM, PowerSequences
from talos.machined.boot.sequence import Phase, Sequencer, SequenceReplacedError, Task, TaskFailedError
from talos.machined.logs.store import LogStore
from talos.machined.node.events import EventLog
from talos.machined.node.ports import RebootMode, SequenceLockedError
from talos.machined.node.stage import MachineStage
from talos.system.logging import Log
from talos.system.mounts import MountPoint
from talos.system.power import PowerAction
from talos.testing.mounts import MemoryMounts
from talos.testing.power import MemoryPower


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """A clock that jumps a little late: disks are flushed in a thread, which it does not see."""
    return trio.testing.MockClock(autojump_threshold=0.2)


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


async def test_phases_and_tasks_are_told_in_order() -> None:
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


async def test_takeover() -> None:
    events = EventLog()
    sequencer = Sequencer(events, quiet())
    ended: list[str] = []

    async def boot() -> None:
        try:
            await sequencer.run("boot", (Phase("first", (Task("one", trio.sleep_forever),)),))
        except SequenceReplacedError:
            ended.append("boot")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(boot)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SequenceLockedError, match="boot is running"):
            sequencer.reserve("reboot")
        sequencer.reserve("shutdown", takeover=True)
        await sequencer.run("shutdown", (Phase("only", (Task("two", succeed),)),))
    assert ended == ["boot"]
    assert (await events_of(events))[-1] == "shutdown STOP"


@dataclass
class Services:
    """As much of a supervisor as the sequences use."""

    stop: Callable[[], object] = succeed
    denied: str = ""
    kept: list[frozenset[str]] = field(default_factory=list[frozenset[str]])

    def deny_starts(self, reason: str) -> None:
        self.denied = reason

    async def stop_all(self, *, keep: frozenset[str]) -> None:
        self.kept.append(keep)
        await self.stop()  # pyright: ignore[reportGeneralTypeIssues]

    def list(self) -> tuple[()]:
        return ()


class Machine:
    """The sequences with twins around them."""

    def __init__(self, nursery: trio.Nursery, services: Services) -> None:
        self.lines: list[str] = []
        self.switch, self.mounts, self.stage = MemoryPower(), MemoryMounts(), MachineStage()
        self.events, self.services = EventLog(), services
        for target in ("/", "/var", "/var/lib/kubelet/pods/x"):
            self.mounts.mount(MountPoint(source="x", target=target, type="xfs"))
        log = Log(write=self.lines.append)
        self.power = PowerSequences(
            nursery=nursery,
            sequencer=Sequencer(self.events, log),
            supervisor=services,  # pyright: ignore[reportArgumentType]
            stage=self.stage,
            events=self.events,
            logs=LogStore(),
            mounts=self.mounts,
            switch=self.switch,
            log=log,
        )


async def test_reboot(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services())
        actor = machine.power.reboot(mode=RebootMode.DEFAULT)
        assert machine.stage.value == enums.MACHINE_STAGE_REBOOTING
        with pytest.raises(SequenceLockedError):
            machine.power.reboot()
    assert machine.switch.pressed == [PowerAction.REBOOT]
    assert machine.switch.flushed == 1
    assert [mount.target for mount in machine.mounts.list()] == ["/"]
    assert machine.services.denied
    assert machine.services.kept == [SYSTEM]
    async with machine.events.follow(tail=-1) as events:
        assert (await anext(events)).actor_id == actor


async def test_a_busy_mount_is_named_and_made_read_only(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services())
        machine.mounts.busy.add("/var")
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert [mount.options[-1] for mount in machine.mounts.list() if mount.target == "/var"] == ["ro"]
    assert any('"mount":"/var"' in line for line in machine.lines)


async def test_what_never_ends_is_ended_by_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(stop=trio.sleep_forever))
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    # the mock clock jumps while a thread flushes the disks
    assert DEADLINE <= trio.current_time() - began < DEADLINE + FLUSH_LIMIT + 5
    assert any("not done within 60 s" in line and "/var" in line for line in machine.lines)
