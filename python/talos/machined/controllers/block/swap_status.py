"""SwapStatusController: what the kernel swaps to, and how much of it is used."""

import math
from collections.abc import Callable

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.block.swap import Swap, parse_swaps
from talos.system.sizes import format_pretty_size

SWAPS = "/proc/swaps"
INTERVAL = 60.0
"""Seconds between two looks while there is swap, as upstream's."""


class SwapStatusController(Controller):
    """VolumeStatus → SwapStatus; ``read`` is given a path."""

    name = "block.SwapStatusController"
    inputs = (Input(kinds.VOLUME_STATUS),)
    outputs = (Output(kinds.SWAP_STATUS),)

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look again when a volume changes, and from time to time while one of them is swap."""
        interval = math.inf
        while True:
            with trio.move_on_after(interval):
                await runtime.wait_for_round()
            volumes = await runtime.list(kinds.VOLUME_STATUS)
            has_swap = any(volume.spec.filesystem == enums.FILESYSTEM_TYPE_SWAP for volume in volumes)
            interval = INTERVAL if has_swap else math.inf
            async with runtime.track_outputs():
                for swap in parse_swaps(self._read(SWAPS)) if has_swap else ():
                    await runtime.put(kinds.SWAP_STATUS, swap.device, _make_status(swap))
            runtime.reset_backoff()


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
