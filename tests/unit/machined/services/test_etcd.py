"""PID 1's questions about etcd: what refuses a rollback, and what does not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from talos.api.internal.membership_pb2 import LockUpgradeResponse
from talos.api.rpc import Code, RpcError
from talos.machined.services import etcd_data
from talos.machined.services.etcd import LOCK_TIMEOUT, lock_rollback
from talos.system.logging import Log

LOCKED = "cp-1 is being upgraded and holds the lock"


class Clusterd:
    """Answers one thing; silent when it is None."""

    def __init__(self, answer: LockUpgradeResponse | Exception | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[Any]:
        assert path.endswith("/clusterd.sock")
        yield self

    async def unary(self, method: str, request: Any, reply: Any) -> LockUpgradeResponse:
        del request
        assert reply is LockUpgradeResponse
        self.asked.append(method)
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
        await lock_rollback(clusterd.connect, Log(write=lambda _: None))
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
    await lock_rollback(Clusterd(answer).connect, Log(write=lines.append))
    assert trio.current_time() - began <= 2 * LOCK_TIMEOUT
    text = "".join(lines)
    assert ("without the lock" in text, reason in text) == (bool(reason), True), text


async def test_a_node_without_a_member_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    clusterd = Clusterd(None)
    await lock_rollback(clusterd.connect, Log(write=lambda _: None))
    assert clusterd.asked == []
