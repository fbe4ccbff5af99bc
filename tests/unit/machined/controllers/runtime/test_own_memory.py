"""PID 1 above its bound of memory."""

from pathlib import Path

import pytest
import trio
import trio.testing

from talos.machined.controllers.runtime.own_memory import DIAGNOSTIC, INTERVAL, OwnMemoryController
from talos.resource import kinds
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.cgroups import MIB, find_groups
from talos.system.logging import Log


@pytest.mark.parametrize(("own", "shown"), [(900 * MIB, True), (90 * MIB, False)])
async def test_a_diagnostic_while_pid_1_grows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, own: int, *, shown: bool
) -> None:
    """Files that the kernel keeps in memory for PID 1 are no reason."""
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "init").mkdir()
    events, stat = tmp_path / "init/memory.events", tmp_path / "init/memory.stat"
    events.write_text("high 0\n")
    stat.write_text(f"anon {own}\n")
    state, lines = MemoryState(), list[str]()
    controller = OwnMemoryController(find_groups(tmp_path), Log(write=lines.append))

    async def diagnostics() -> list[str]:
        await trio.sleep(INTERVAL)
        return [one.id for one in await state.list(kinds.DIAGNOSTIC)]

    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [controller])
        await trio.sleep(INTERVAL / 2)
        assert await diagnostics() == []
        events.write_text("high 5\n")
        assert await diagnostics() == ([DIAGNOSTIC] if shown else [])
        events.write_text("high 7\n")
        assert await diagnostics() == ([DIAGNOSTIC] if shown else [])
        assert await diagnostics() == [], "it has stopped to grow"
        nursery.cancel_scope.cancel()
    assert len(lines) == int(shown)
