"""SwapStatusController: what the kernel swaps to, and how much of it is used."""

import math
from collections.abc import Callable
from typing import override

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.block.swap import Swap, parse_swaps
from talos.system.sizes import format_pretty_size

SWAPS = "/proc/swaps"
INTERVAL = 60.0
"""Seconds between two checks while there is swap, as upstream's."""


class SwapStatusController(Reconciler):
    """VolumeStatus → SwapStatus; ``read`` is given a path."""

    name = "block.SwapStatusController"
    inputs = (Input(kinds.VOLUME_STATUS),)
    outputs = (Output(kinds.SWAP_STATUS),)

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        volumes = await runtime.list(kinds.VOLUME_STATUS)
        has_swap = any(volume.spec.filesystem == enums.FILESYSTEM_TYPE_SWAP for volume in volumes)
        self.interval = INTERVAL if has_swap else math.inf
        async with runtime.track_outputs():
            for swap in parse_swaps(self._read(SWAPS)) if has_swap else ():
                await runtime.put(kinds.SWAP_STATUS, swap.device, _make_status(swap))


def _make_status(swap: Swap) -> block_pb2.SwapStatusSpec:
    return block_pb2.SwapStatusSpec(
        device=swap.device,
        size_bytes=swap.size,
        size_human=format_pretty_size(swap.size),
        used_bytes=swap.used,
        used_human=format_pretty_size(swap.used),
        priority=swap.priority,
        type=swap.type,
    )
