"""What is removed of debug containers of earlier boots, and of one whose containerd is just restarted."""

from typing import Any

import pytest
import trio
from google.protobuf.message import Message

from talos.api.containerd import containers_pb2
from talos.api.rpc import Code, RpcError
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.container import REMOVE_TIMEOUT, remove_at_end
from talos.machined.containerd.debug.left import remove_left

RUNNING, LEFT = "debug-0123456789abcdef", "debug-fedcba9876543210"


class Containers:
    """A transport to a containerd that has containers of these names, and no tasks."""

    def __init__(self, *names: str, failures: int = 0) -> None:
        self.names = set(names)
        self.failures = failures

    async def unary(self, method: str, request: Any, reply: type[Message], **_: Any) -> Message:
        await trio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise RpcError(Code.UNAVAILABLE, "connection refused")
        match method.rpartition(".")[2]:
            case "Containers/List":
                assert request.filters == ['id~="^debug-"']
                found = [containers_pb2.Container(id=name) for name in sorted(self.names)]
                return containers_pb2.ListContainersResponse(containers=found)
            case "Containers/Delete":
                self.names.discard(request.id)
                return reply()
            case _:
                raise RpcError(Code.NOT_FOUND, "not found")


def open_twin(transport: Containers) -> Containerd:
    return Containerd(transport, "system")  # pyright: ignore[reportArgumentType]


async def test_those_of_earlier_boots_are_removed_and_no_others() -> None:
    kept = {RUNNING, f"{RUNNING}-root", "debug-of-mine", "etcd"}
    transport = Containers(*kept, LEFT, f"{LEFT}-root")
    await remove_left(open_twin(transport), {RUNNING})
    assert transport.names == kept


async def test_the_end_waits_for_a_containerd_that_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    transport = Containers(LEFT, failures=3)
    with trio.CancelScope() as scope:
        scope.cancel()
        await remove_at_end(open_twin(transport), LEFT)
    assert transport.names == set()


async def test_a_containerd_that_stays_away_is_not_waited_for_without_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    began = trio.current_time()
    await remove_at_end(open_twin(Containers(LEFT, failures=10_000)), LEFT)
    assert trio.current_time() - began == pytest.approx(REMOVE_TIMEOUT, abs=1)
