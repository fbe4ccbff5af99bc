"""Asynchronous tests run under trio, or with the mark ``asyncio`` under asyncio."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, cast

import pytest
import trio
import trio.testing
from tests.harness.limits import REAL_TIMEOUT

# Tests fork only to start programs. Else the handlers of grpcio run in the child, where one that another
# thread holds up keeps the program from starting.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    """A clock on which waiting takes no time: it jumps when every task waits, and no thread works for one.

    A thread that its task may abandon does not hold it: such a one may hang, in a test about that.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)
    call_in_thread, thresholds = trio.to_thread.run_sync, list[float]()

    async def run_sync(*arguments: Any, **options: Any) -> Any:
        if options.get("abandon_on_cancel"):
            return await call_in_thread(*arguments, **options)
        thresholds.append(clock.autojump_threshold)
        clock.autojump_threshold = inf
        try:
            return await call_in_thread(*arguments, **options)
        finally:
            clock.autojump_threshold = thresholds.pop()

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    return clock


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the build sandbox can't do; `make node` runs it on the machine itself."""
    skip = pytest.mark.skip(reason="needs root outside of a build sandbox")
    if os.geteuid() == 0 and "NIX_BUILD_TOP" not in os.environ:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function, under trio on the test's mock clock if it has one, else for REAL_TIMEOUT."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    test = cast("Callable[..., Awaitable[None]]", pyfuncitem.obj)
    names = inspect.signature(test).parameters
    values: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    if pyfuncitem.get_closest_marker("asyncio"):
        asyncio.run(asyncio.wait_for(test(**values), REAL_TIMEOUT))
        return True
    clocks = [value for value in values.values() if isinstance(value, trio.abc.Clock)]

    async def run() -> None:
        if clocks:
            await test(**values)
        else:
            with trio.fail_after(REAL_TIMEOUT):
                await test(**values)

    trio.run(run, clock=clocks[0] if clocks else None)
    return True
