"""The sequences that end the machine, in time."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
import trio.testing

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.disks.reset import ResetPlan
from talos.machined.boot.power import (
    DEADLINE,
    DRAIN_TIMEOUT,
    FLUSH_TIMEOUT,
    KUBELET_TIMEOUT,
    RESIGN_TIMEOUT,
    PowerSequences,
)
from talos.machined.boot.power_hooks import PowerHooks
from talos.machined.boot.sequence import Sequencer
from talos.machined.boot.stop_phases import SYSTEM, StopPhases
from talos.machined.logs.store import LogStore
from talos.machined.node.events import EventLog
from talos.machined.node.ports.power import RebootMode, SequenceLockedError
from talos.machined.node.stage import MachineStage
from talos.system.logging import Log
from talos.system.mounts import MountPoint
from talos.system.power import PowerAction
from talos.testing.files import MemoryFiles
from talos.testing.mounts import MemoryMounts
from talos.testing.power import MemoryPower


@pytest.fixture(autouse=True)
def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of threads takes no time: a mock clock jumps while one runs that may be abandoned."""
    run_inline(monkeypatch)


def run_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what belongs in a thread run in the loop."""

    async def run_sync[T](call: Callable[..., T], *arguments: object, **_options: object) -> T:
        await trio.lowlevel.checkpoint()
        return call(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)


async def succeed() -> None:
    await trio.lowlevel.checkpoint()


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

    def __init__(
        self,
        nursery: trio.Nursery,
        services: Services,
        resign: Callable[[], Awaitable[None]] = succeed,
        drain: Callable[[], Awaitable[None]] = succeed,
        shut_kubelet_down: Callable[[], Awaitable[None]] = succeed,
        stop_pods: Callable[[], Awaitable[None]] = succeed,
        resume: Callable[[], Awaitable[None]] = succeed,
        end_debugging: Callable[[], Awaitable[None]] = succeed,
    ) -> None:
        self.lines: list[str] = []
        self.switch, self.mounts, self.stage = MemoryPower(), MemoryMounts(), MachineStage()
        self.events, self.services = EventLog(), services
        for target in ("/", "/var", "/opt", "/var/lib/kubelet/pods/x"):
            self.mounts.mount(MountPoint(source="x", target=target, type="xfs"))
        log = Log(write=self.lines.append)
        self.power = PowerSequences(
            nursery=nursery,
            sequencer=Sequencer(self.events, log),
            stage=self.stage,
            events=self.events,
            stop_phases=StopPhases(
                supervisor=services,  # pyright: ignore[reportArgumentType]
                logs=LogStore(),
                mounts=self.mounts,
                files=MemoryFiles({"/proc/17/comm": "apid\n"}, {"/proc/17/fd/4": "/var/log/x"}),
                log=log,
                close_volumes=succeed,
                end_debugging=end_debugging,
            ),
            hooks=PowerHooks(
                drain=drain,
                resign=resign,
                shut_kubelet_down=shut_kubelet_down,
                stop_pods=stop_pods,
                leave_etcd=succeed,
                forget_state_keys=succeed,
                resume=resume,
            ),
            mounts=self.mounts,
            switch=self.switch,
            log=log,
        )


BEGINNINGS: Mapping[str, Callable[[PowerSequences], str]] = {
    "shutdown": PowerSequences.shutdown,
    "upgrade": lambda power: power.upgrade(succeed, staged=False),
    "reset": lambda power: power.reset(ResetPlan(graceful=True)),
    "reboot": lambda power: power.reboot(is_upgrade=True),
}
"""Of the sequences before which pods move elsewhere."""


def make_failing(*, hangs: bool) -> Callable[[], Awaitable[None]]:
    """A step that has no connection, or none to an end."""

    async def fail() -> None:
        if hangs:
            await trio.sleep_forever()
        raise RpcError(Code.UNAVAILABLE, "no connection")

    return fail


def find_reason(machine: Machine, failure: str) -> str:
    """Why a step failed, in the one line about it."""
    [line] = [line for line in machine.lines if failure in line]
    return line


async def test_reboot(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services())
        actor = machine.power.reboot(mode=RebootMode.DEFAULT)
        assert machine.stage.value == enums.MACHINE_STAGE_REBOOTING
        with pytest.raises(SequenceLockedError) as locked:
            machine.power.reboot()
    assert machine.switch.pressed == [PowerAction.REBOOT]
    assert machine.switch.flushed == 1
    assert [mount.target for mount in machine.mounts.list()] == ["/"]
    assert machine.services.denied
    assert machine.services.kept == [SYSTEM]
    async with machine.events.follow(tail=-1) as events:
        assert [(await anext(events)).actor_id for _ in range(2)] == [locked.value.actor, actor]


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.parametrize("stop", [succeed, trio.sleep_forever], ids=["in time", "never"])
async def test_clients_get_notice_that_all_services_stop(
    autojump_clock: trio.testing.MockClock,
    begin: Callable[[PowerSequences], str],
    stop: Callable[[], Awaitable[None]],
) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(stop=stop))
        actor = begin(machine.power)
    tasks: list[tuple[str, str]] = []
    async with machine.events.follow(tail=-1) as events:
        async for event in events:
            match event.payload:
                case pb.TaskEvent() as it if it.action == pb.TaskEvent.START:
                    tasks.append((it.task, event.actor_id))
                case pb.RestartEvent():
                    break
                case _:
                    pass
    reboots = machine.switch.pressed == [PowerAction.REBOOT]
    last = ["kexecPrepare", "stopAllServices", "reboot"] if reboots else ["stopAllServices"]
    assert tasks[-len(last) :] == [(task, actor) for task in last]


async def test_it_resigns_before_services_stop(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    order: list[str] = []

    async def resign() -> None:
        await trio.sleep(2)
        order.append("resigned")

    async def stop() -> None:
        await trio.lowlevel.checkpoint()
        order.append("stopped")

    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(stop=stop), resign).power.shutdown()
    assert order == ["resigned", "stopped"]


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_resignation_that_fails_or_hangs_does_not_hold_a_shutdown_up(
    autojump_clock: trio.testing.MockClock, *, hangs: bool
) -> None:
    del autojump_clock
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(), make_failing(hangs=hangs))
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert machine.services.kept == [SYSTEM]
    assert trio.current_time() - began < RESIGN_TIMEOUT + FLUSH_TIMEOUT + 5
    reason = find_reason(machine, "did not resign")
    assert ("it takes more than 5 s" if hangs else "no connection") in reason


@pytest.mark.parametrize("sequence", BEGINNINGS)
async def test_the_kubelet_ends_its_pods_after_the_drain_and_before_the_rest(
    autojump_clock: trio.testing.MockClock, sequence: str
) -> None:
    del autojump_clock
    order: list[str] = []

    def note(word: str, seconds: float = 0) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await trio.sleep(seconds)
            order.append(word)

        return run

    async with trio.open_nursery() as nursery:
        power = Machine(
            nursery,
            Services(stop=note("services")),
            note("resign"),
            note("drain", 350),
            note("kubelet", 1199),
            note("pods", 170),
        ).power
        BEGINNINGS[sequence](power)
    assert order == ["drain", "resign", "kubelet", "pods", "services"]


async def test_debug_containers_end_before_services_stop(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    order: list[str] = []

    async def end_debugging() -> None:
        await trio.sleep(2)
        order.append("debug containers")

    async def stop() -> None:
        await trio.lowlevel.checkpoint()
        order.append("services")

    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(stop=stop), end_debugging=end_debugging)
        machine.power.reboot()
    assert order == ["debug containers", "services"]
    assert machine.switch.pressed == [PowerAction.REBOOT]


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_kubelet_that_fails_or_hangs_does_not_keep_pods_from_ending(
    autojump_clock: trio.testing.MockClock, *, hangs: bool
) -> None:
    del autojump_clock
    stopped: list[float] = []

    async def stop_pods() -> None:
        await trio.lowlevel.checkpoint()
        stopped.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        machine = Machine(
            nursery, Services(), shut_kubelet_down=make_failing(hangs=hangs), stop_pods=stop_pods
        )
        machine.power.reboot()
    assert machine.switch.pressed == [PowerAction.REBOOT]
    assert machine.services.kept == [SYSTEM]
    [seconds] = stopped
    assert seconds < KUBELET_TIMEOUT + 5
    reason = find_reason(machine, "the kubelet does not end its pods")
    assert ("it takes more than 1300 s" if hangs else "no connection") in reason


@pytest.mark.parametrize("sequence", BEGINNINGS)
async def test_pods_move_elsewhere_before_services_stop(
    autojump_clock: trio.testing.MockClock, sequence: str
) -> None:
    del autojump_clock
    order: list[str] = []

    async def drain() -> None:
        await trio.sleep(350)
        order.append("drained")

    async def stop() -> None:
        await trio.lowlevel.checkpoint()
        order.append("stopped")

    async with trio.open_nursery() as nursery:
        power = Machine(nursery, Services(stop=stop), drain=drain).power
        BEGINNINGS[sequence](power)
    assert order == ["drained", "stopped"]


async def test_a_forced_end_moves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    drained: list[str] = []

    async def drain() -> None:
        await trio.lowlevel.checkpoint()
        drained.append("")

    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(), drain=drain).power.shutdown(force=True)
    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(), drain=drain).power.reset(ResetPlan(graceful=False))
    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(), drain=drain).power.upgrade(succeed, staged=True)
    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(), drain=drain).power.reboot()
    async with trio.open_nursery() as nursery:
        Machine(nursery, Services(), drain=drain).power.reboot(mode=RebootMode.FORCE, is_upgrade=True)
    assert drained == []


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_drain_that_fails_or_hangs_ends_in_time(
    autojump_clock: trio.testing.MockClock, *, hangs: bool
) -> None:
    del autojump_clock
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(), drain=make_failing(hangs=hangs))
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert machine.services.kept == [SYSTEM]
    assert trio.current_time() - began < DRAIN_TIMEOUT + FLUSH_TIMEOUT + 5
    reason = find_reason(machine, "not moved elsewhere")
    assert ("it takes more than 400 s" if hangs else "no connection") in reason


async def test_a_busy_mount_is_named_and_made_read_only(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services())
        machine.mounts.busy.add("/var")
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert [mount.options[-1] for mount in machine.mounts.list() if mount.target == "/var"] == ["ro"]
    assert not [mount for mount in machine.mounts.list() if mount.target == "/opt"]
    [line] = [line for line in machine.lines if '"mount":"/var"' in line]
    assert "apid (PID 17): /var/log/x" in line


async def test_what_never_ends_is_ended_by_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(stop=trio.sleep_forever))
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert DEADLINE <= trio.current_time() - began < DEADLINE + 5
    assert any("not done within 60 s" in line and "/var" in line for line in machine.lines)


async def test_a_reboot_that_is_replaced_leaves_the_end_to_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, Services(stop=partial(trio.sleep, 5)))
        machine.power.reboot()
        await trio.testing.wait_all_tasks_blocked()
        machine.power.shutdown()
    assert machine.switch.pressed == [PowerAction.POWER_OFF]
    assert not any("Traceback" in line for line in machine.lines)
