"""How far a pull is, from a node's replies; a call that was lost."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.fleet.cluster import TICK
from tests.unit.fleet.jumping import JumpingLoop

from talos.api.machine.image_pb2 import ImageServicePullLayerProgress as Layer
from talos.api.rpc import Code, RpcError
from talos.fleet.calls import format_progress, repeat_lost
from talos.upgrade.state import BUSY


def test_progress_counts_bytes_and_layers() -> None:
    layers = [
        Layer(status=Layer.DOWNLOADING, offset=1_000_000, total=4_000_000),
        Layer(status=Layer.ALREADY_EXISTS, offset=2_000_000, total=2_000_000),
        Layer(status=Layer.EXTRACTING, total=3_000_000),
    ]
    assert format_progress(layers) == "6.0 MB of 9.0 MB"
    layers[2].status = Layer.EXTRACT_COMPLETE
    assert format_progress(layers) == "6.0 MB of 9.0 MB, layers unpacked: 1"


async def lose(call: Callable[[], str]) -> str:
    async def attempt() -> str:
        await asyncio.sleep(0)
        return call()

    return await repeat_lost(attempt, 20 * TICK)


def test_a_lost_call_that_is_still_at_work_is_waited_for() -> None:
    answers = iter([RpcError(Code.UNAVAILABLE, "lost"), *[RpcError(Code.FAILED_PRECONDITION, BUSY)] * 100])

    def call() -> str:
        if (error := next(answers, None)) is not None:
            raise error
        return "done"

    assert asyncio.run(lose(call), loop_factory=JumpingLoop) == "done"


def test_what_refuses_a_repeated_call_counts_in_the_end() -> None:
    lost = [RpcError(Code.UNAVAILABLE, "lost")]

    def call() -> str:
        raise lost.pop() if lost else RpcError(Code.FAILED_PRECONDITION, "not signed")

    with pytest.raises(RpcError, match="not signed"):
        asyncio.run(lose(call), loop_factory=JumpingLoop)
