"""ZswapStatusController: what the kernel holds compressed in memory instead of on the swap device."""

import math
import mmap
from collections.abc import Callable
from typing import override

from talos.api.definitions import block_pb2
from talos.config.effective.machine import ZSWAP
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.proc.meminfo import parse_meminfo
from talos.system.sizes import format_pretty_size

ID = "zswap"
ENABLED = f"sys.{ZSWAP}.enabled"
"""The kernel parameter that ``ZswapConfig`` sets."""
MEMINFO, VMSTAT = "/proc/meminfo", "/proc/vmstat"
INTERVAL = 60.0
"""Seconds between two checks while zswap is enabled, as upstream's."""


class ZswapStatusController(Reconciler):
    """KernelParamStatus → ZswapStatus; ``read`` is given a path.

    The counters of refused pages stay 0: the kernel has them in debugfs only, which ours lacks.
    """

    name = "block.ZswapStatusController"
    inputs = (Input(kinds.KERNEL_PARAM_STATUS, ENABLED),)
    outputs = (Output(kinds.ZSWAP_STATUS),)

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        param = await runtime.get_or_none(kinds.KERNEL_PARAM_STATUS, ENABLED)
        is_enabled = param is not None and param.spec.current == "Y"
        self.interval = INTERVAL if is_enabled else math.inf
        async with runtime.track_outputs():
            if is_enabled:
                status = make_status(self._read(MEMINFO), self._read(VMSTAT))
                await runtime.put(kinds.ZSWAP_STATUS, ID, status)


def make_status(meminfo: str, vmstat: str) -> block_pb2.ZswapStatusSpec:
    """The status by the two files of /proc; a kernel without zswap has zeros."""
    kilobytes = parse_meminfo(meminfo)
    size = kilobytes.get("Zswap", 0) << 10
    events = dict(line.split() for line in vmstat.splitlines())
    return block_pb2.ZswapStatusSpec(
        total_size_bytes=size,
        total_size_human=format_pretty_size(size),
        stored_pages=(kilobytes.get("Zswapped", 0) << 10) // mmap.PAGESIZE,
        written_back_pages=int(events.get("zswpwb", 0)),
    )
