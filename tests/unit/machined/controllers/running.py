"""Controllers that run during a test, and the volume they wait for."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from talos.api.definitions import block_pb2
from talos.resource import kinds
from talos.resource.changes import modify
from talos.resource.controller.controller import Controller
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


@asynccontextmanager
async def running(state: MemoryState, *controllers: Controller) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, controllers)
        yield
        nursery.cancel_scope.cancel()


async def mount_state(state: MemoryState, folder: Path) -> None:
    def change(spec: block_pb2.VolumeMountStatusSpec) -> None:
        spec.volume_id = "STATE"
        spec.target = str(folder)

    await modify(state, kinds.VOLUME_MOUNT_STATUS, "sequencer-STATE", change)
