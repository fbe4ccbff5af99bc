"""The lock of upgrades as PID 1 takes it: what refuses an upgrade or a rollback, and what is waited for."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.internal.membership_pb2 import LockUpgradeResponse
from talos.api.rpc import Code, RpcError
from talos.machined.node import etcd_data
from talos.machined.services.upgrade_lock import REFUSAL_TIMEOUT, ROLLBACK_TIMEOUT, EtcdLock
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

from .test_etcd import make_state

LOCKED = "cp-1 is being upgraded and holds the lock"


class Clusterd:
    """Answers one thing; silent when it is None."""

    def __init__(self, answer: LockUpgradeResponse | Exception | None) -> None:
        self.answer = answer
        self.calls: list[str] = []

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[Any]:
        assert path.endswith("/clusterd.sock")
        yield self

    async def unary(self, method: str, request: Any, reply: Any) -> LockUpgradeResponse:
        del request, reply
        self.calls.append(method)
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


@pytest.fixture(autouse=True)
def member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Etcd has run on this node."""
    monkeypatch.setattr(etcd_data, "has_data", lambda: True)


async def test_another_nodes_upgrade_refuses_a_rollback() -> None:
    clusterd = Clusterd(LockUpgradeResponse(refusal=LOCKED))
    with pytest.raises(RpcError, match=LOCKED) as refused:
        await EtcdLock(clusterd.connect, MemoryState()).take_for_rollback(Log(write=lambda _: None))
    assert refused.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RpcError(Code.UNAVAILABLE, "no member of etcd answers"), "no member of etcd answers"),
        (RpcError(Code.FAILED_PRECONDITION, "etcd's certificates are not there yet"), "certificates"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (None, "no answer in time"),
        (LockUpgradeResponse(), ""),
    ],
)
async def test_a_rollback_needs_no_etcd(
    answer: LockUpgradeResponse | Exception | None, reason: str, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    lines: list[str] = []
    began = trio.current_time()
    await EtcdLock(Clusterd(answer).connect, MemoryState()).take_for_rollback(Log(write=lines.append))
    assert trio.current_time() - began <= 2 * ROLLBACK_TIMEOUT
    text = "".join(lines)
    assert ("without the lock" in text, reason in text) == (bool(reason), True), text


async def test_a_node_without_a_member_calls_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    clusterd = Clusterd(None)
    await EtcdLock(clusterd.connect, MemoryState()).take_for_rollback(Log(write=lambda _: None))
    assert clusterd.calls == []


@pytest.mark.parametrize(
    ("refusal", "calls"),
    [
        (None, ["CheckNoMember"]),
        (
            RpcError(Code.FAILED_PRECONDITION, "etcd has the member 7 of this node"),
            ["CheckNoMember", "CheckUpgrade"],
        ),
        (RpcError(Code.UNAVAILABLE, "no etcd member answers"), ["CheckNoMember", "CheckUpgrade"]),
    ],
)
async def test_a_node_whose_data_is_not_there_may_have_a_member(
    refusal: Exception | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    clusterd = Member(refusal)
    state = await make_state(enums.VOLUME_PHASE_WAITING, volume="EPHEMERAL")
    await EtcdLock(clusterd.connect, state).take(lambda _: None)
    assert clusterd.calls == calls


async def test_a_refusal_for_want_of_etcd_names_the_lost_volume(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    clusterd = Clusterd(RpcError(Code.UNAVAILABLE, "no etcd member answers"))
    for phase, is_named in ((enums.VOLUME_PHASE_WAITING, True), (enums.VOLUME_PHASE_READY, False)):
        state = await make_state(phase, volume="EPHEMERAL")
        with pytest.raises(RpcError, match="no etcd member answers") as refused:
            await EtcdLock(clusterd.connect, state).take(lambda _: None)
        assert ("--system-labels-to-wipe EPHEMERAL" in refused.value.reason) is is_named
        assert ("talosctl upgrade --force" in refused.value.reason) is is_named


class Member(Clusterd):
    """Clusterd that may refuse to list a member of this node, and nothing else."""

    async def unary(self, method: str, request: Any, reply: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.calls.append(method.rpartition("/")[2])
        if self.calls == ["CheckNoMember"] and isinstance(self.answer, Exception):
            raise self.answer
        return reply()


async def test_a_trial_does_not_take_the_lock_of_another_node() -> None:
    clusterd = Clusterd(LockUpgradeResponse())
    await EtcdLock(clusterd.connect, MemoryState()).hold_on_trial()
    clusterd.answer = LockUpgradeResponse(refusal=LOCKED)
    with pytest.raises(RpcError, match=LOCKED):
        await EtcdLock(clusterd.connect, MemoryState()).hold_on_trial()
    assert len(clusterd.calls) == 2


class Guard:
    """Clusterd with an answer for each question of an upgrade; the last one is repeated."""

    def __init__(self, *answers: Exception | None, seconds: float = 0.0) -> None:
        self.answers = list(answers)
        self.seconds = seconds
        self.calls = 0

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[Any]:
        assert path.endswith("/clusterd.sock")
        yield self

    async def unary(self, method: str, request: Any, reply: Any) -> Any:
        assert method.endswith("/CheckUpgrade")
        self.calls += 1
        await trio.sleep(self.seconds)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return reply()


UNHEALTHY = RpcError(Code.UNAVAILABLE, "etcd member cp-2 is not healthy; all etcd members must be healthy")


@pytest.mark.parametrize(
    "passing",
    [
        UNHEALTHY,
        RpcError(Code.ABORTED, LOCKED),
        RpcError(Code.DEADLINE_EXCEEDED, "too late"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
async def test_what_may_pass_is_waited_for(
    passing: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    guard, lines = Guard(passing, passing, passing, None), list[str]()
    await EtcdLock(guard.connect, MemoryState()).take(lines.append)
    assert guard.calls == 4
    assert len(lines) == 1, "what does not change is reported once"
    assert lines[0].startswith("waiting for up to 30 s: ")
    assert getattr(passing, "message", "Connection refused") in lines[0]


@pytest.mark.parametrize("seconds", [0.0, 10.0])
async def test_a_member_that_stays_away_refuses_an_upgrade(
    seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    guard, began = Guard(UNHEALTHY, seconds=seconds), trio.current_time()
    with pytest.raises(RpcError) as refused:
        await EtcdLock(guard.connect, MemoryState()).take(lambda _: None)
    assert (refused.value.code, refused.value.message) == (Code.FAILED_PRECONDITION, UNHEALTHY.message)
    assert REFUSAL_TIMEOUT <= trio.current_time() - began < 1.5 * REFUSAL_TIMEOUT


async def test_what_does_not_pass_refuses_at_once(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    guard, lines = Guard(RpcError(Code.FAILED_PRECONDITION, "member count(2)")), list[str]()
    began = trio.current_time()
    with pytest.raises(RpcError, match="member count"):
        await EtcdLock(guard.connect, MemoryState()).take(lines.append)
    assert (guard.calls, lines, trio.current_time() - began) == (1, [], 0.0)
