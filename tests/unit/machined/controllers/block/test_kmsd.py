"""kmsd runs while a key is requested."""

from collections.abc import Iterable
from typing import Any, cast

import trio
from trio.testing import MockClock

from talos.machined.controllers.block.kmsd import IDLE_TIMEOUT, KeyDaemonController
from talos.machined.node.key_requests import TIMEOUT, KeyRequests
from talos.system.errors import UserError


class Services:
    """What is started and ended."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def start_soon(self, ids: Iterable[str]) -> None:
        self.calls += [(f"start {name}", trio.current_time()) for name in ids]

    async def halt(self, id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append((f"halt {id}", trio.current_time()))


async def test_it_starts_with_a_request_and_ends_when_there_is_none(autojump_clock: MockClock) -> None:
    del autojump_clock
    requests, services = KeyRequests(), Services()
    controller = KeyDaemonController(requests, cast("Any", services))
    began = trio.current_time()

    async def call() -> None:
        try:
            await requests.call("https://kms", "uuid", b"x", seal=False)
        except UserError as error:
            assert error.message == f"no answer in {TIMEOUT:.0f} s"  # noqa: PT017 - a task of its own

    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run, cast("Any", None))
        await trio.sleep(100)
        assert services.calls == []
        for _ in range(2):
            await call()
            await trio.sleep(IDLE_TIMEOUT / 2)
        await trio.sleep(IDLE_TIMEOUT)
        nursery.cancel_scope.cancel()
    names = [name for name, _ in services.calls]
    assert names == ["start kmsd", "halt kmsd"]
    ended = services.calls[1][1] - began
    assert ended == 100 + 2 * TIMEOUT + IDLE_TIMEOUT / 2 + IDLE_TIMEOUT
