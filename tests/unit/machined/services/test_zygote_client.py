"""When a zygote that does not answer is replaced, with a process and a clock of the test's."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio

from talos.machined.services import zygote_client
from talos.machined.services.health import MIN_SILENCE_SHARE
from talos.machined.services.reaper import Reaper
from talos.machined.services.zygote_client import ANSWER_TIMEOUT, Zygote, ZygoteLostError
from talos.machined.services.zygote_request import ForkRequest

PID = 1 << 22
"""That of no process."""
REQUEST = ForkRequest(module="sample", title="sample", uid=1, gid=1, environment={})


@dataclass(slots=True)
class Process:
    """The zygote's, which is only signalled."""

    pid: int = PID
    signals: list[int] = field(default_factory=list[int])

    def signal(self, number: int) -> None:
        self.signals.append(number)


async def lose_zygote(
    works: Callable[[float], float], monkeypatch: pytest.MonkeyPatch
) -> tuple[float, Process]:
    """Seconds until a zygote is given up that never answers; ``works`` is what it has worked until then."""
    began = trio.current_time()

    def read_activity(pid: int) -> float:
        assert pid == PID
        return works(trio.current_time() - began)

    monkeypatch.setattr(zygote_client, "read_activity", read_activity)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        zygote = Zygote(Reaper(), ours, PID)
        zygote.process = cast("Any", process := Process())
        with pytest.raises(ZygoteLostError, match="did not answer within"):
            await zygote.fork(REQUEST, theirs.fileno(), theirs.fileno())
    ours.close()
    return trio.current_time() - began, process


@pytest.mark.parametrize(
    ("share", "limit"),
    [(0.0, ANSWER_TIMEOUT), (0.5, 2 * ANSWER_TIMEOUT), (1.0, ANSWER_TIMEOUT / MIN_SILENCE_SHARE)],
)
async def test_time_in_which_it_works_or_waits_for_a_processor_is_no_silence(
    share: float, limit: float, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    took, process = await lose_zygote(lambda seconds: share * seconds, monkeypatch)
    assert took == pytest.approx(limit, abs=2.0)
    assert process.signals == [9]


async def test_time_in_which_pid_1_does_not_run_is_no_silence(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    checks = 0

    def stall(seconds: float) -> float:
        nonlocal checks
        del seconds
        checks += 1
        autojump_clock.jump(100.0)
        return 0.0

    await lose_zygote(stall, monkeypatch)
    assert checks > ANSWER_TIMEOUT / zygote_client.TICK


async def test_its_end_is_noticed_at_once(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = Zygote(Reaper(), ours, PID)
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await trio.sleep(0.5)
            theirs.close()

        nursery.start_soon(end)
        began = trio.current_time()
        with pytest.raises(ZygoteLostError, match=r"the zygote has ended|reset by peer"):
            await zygote.fork(REQUEST, 0, 1)
        assert trio.current_time() - began < ANSWER_TIMEOUT / 2
    ours.close()


async def test_one_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock

    def spawn(fd: int) -> int:
        del fd
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(zygote_client, "spawn_zygote", spawn)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    zygote, reports = Zygote(Reaper(), ours, PID), list[str]()
    zygote.process.finish(-9)
    with trio.move_on_after(2.5):
        await zygote.supervise(reports.append)
    ours.close()
    failed = "no zygote can be started: [Errno 12] Cannot allocate memory"
    assert reports == ["the zygote ended with -9, starting another one", failed] * 3
