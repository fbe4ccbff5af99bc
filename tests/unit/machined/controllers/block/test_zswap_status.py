"""Zswap's status is there while it is enabled, with the numbers of /proc."""

import mmap

from tests.unit.machined.controllers.running import running
from trio.testing import MockClock

from talos.api.definitions import runtime_pb2
from talos.machined.controllers.block.zswap_status import (
    ENABLED,
    ID,
    INTERVAL,
    MEMINFO,
    VMSTAT,
    ZswapStatusController,
)
from talos.resource import kinds
from talos.resource.changes import modify, wait_for
from talos.resource.memory.state import MemoryState
from talos.resource.state import EventType


async def test_the_status_follows_the_parameter_and_the_kernel(autojump_clock: MockClock) -> None:
    files = {MEMINFO: "MemTotal: 100 kB\nZswap: 8 kB\nZswapped: 40 kB\n", VMSTAT: "zswpin 1\nzswpwb 3\n"}
    state = MemoryState()

    async def enable(value: str) -> None:
        def change(spec: runtime_pb2.KernelParamStatusSpec) -> None:
            spec.current = value

        await modify(state, kinds.KERNEL_PARAM_STATUS, ENABLED, change)

    async with running(state, ZswapStatusController(files.__getitem__)):
        await enable("Y")
        found = await wait_for(state, kinds.ZSWAP_STATUS, ID, lambda _: True)
        assert (found.spec.total_size_bytes, found.spec.total_size_human) == (8192, "8.2 kB")
        assert (found.spec.stored_pages, found.spec.written_back_pages) == (40960 // mmap.PAGESIZE, 3)
        files[VMSTAT] = "zswpwb 4\n"
        began = autojump_clock.current_time()
        await wait_for(state, kinds.ZSWAP_STATUS, ID, lambda found: found.spec.written_back_pages == 4)
        assert autojump_clock.current_time() - began <= INTERVAL
        async with state.watch(kinds.ZSWAP_STATUS, ID) as events:
            await enable("N")
            async for batch in events:
                if any(event.type is EventType.DESTROYED for event in batch):
                    break
