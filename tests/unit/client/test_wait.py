"""Waiting ends when nothing is waited for, reports each reason once, and fails with the last one."""

import asyncio
from collections.abc import Iterable

import pytest
from tests.unit.fleet.jumping import JumpingLoop

from talos.api.rpc import Code, RpcError
from talos.client.wait import wait_until
from talos.kubernetes.client import KubernetesError
from talos.system.errors import UserError


def wait(answers: Iterable[str | Exception], seconds: float = 60.0) -> list[str]:
    """The reasons that are reported while a check gives these answers."""
    remaining, reported = iter(answers), list[str]()

    async def check() -> str:
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer

    waiting = wait_until(check, what="node 10.0.0.2", seconds=seconds, hint="look", report=reported.append)
    asyncio.run(waiting, loop_factory=JumpingLoop)
    return reported


def test_each_reason_is_reported_when_it_changes() -> None:
    assert wait(["late", "late", "later", "late", ""]) == ["late", "later", "late"]


def test_an_api_that_fails_is_waited_for() -> None:
    failures = [
        RpcError(Code.UNAVAILABLE, "no route"),
        RpcError(Code.CANCELLED, ""),
        KubernetesError(0, "refused"),
        "",
    ]
    assert wait(failures) == ["no route", "CANCELLED", "the Kubernetes API: refused"]


def test_the_last_reason_is_the_error_when_time_is_up() -> None:
    with pytest.raises(UserError, match=r"^node 10\.0\.0\.2: later, after 3 s \(look\)$"):
        wait(["late", "late", "late", "late", "later"], seconds=3)


def test_a_call_that_is_denied_is_not_repeated() -> None:
    with pytest.raises(RpcError, match="not authorized"):
        wait([RpcError(Code.PERMISSION_DENIED, "not authorized")])
