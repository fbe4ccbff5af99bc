"""A container whose input and output are pipes of this process."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from io import FileIO

import trio

from talos.api.containerd import tasks_pb2
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.container import ContainerProcess, Placement, remove_at_end, run_container
from talos.machined.containerd.pipes import open_named_pipe
from talos.machined.containerd.spec import ContainerSpec
from talos.machined.containerd.store import Image

READ = 16 * 1024
"""Bytes of output that are read at a time."""
MAX_SIDE = 0xFFFF
"""Columns or rows of a terminal: ``struct winsize`` has 16 bits for each."""


class Attached:
    """A running container. Its pipes are this process's until the context of :func:`run_attached` ends."""

    def __init__(
        self, containerd: Containerd, id: str, child: ContainerProcess, output: FileIO, input: FileIO
    ) -> None:
        self._containerd = containerd
        self._id = id
        self._child = child
        self._output = output
        self._input = input

    async def read(self) -> bytes:
        """What it wrote, on both of its outputs; nothing once no process of it can write any more."""
        while True:
            with suppress(BlockingIOError):
                return os.read(self._output.fileno(), READ)
            await trio.lowlevel.wait_readable(self._output)

    async def write(self, data: bytes) -> None:
        """Write to its input, waiting while it does not read."""
        rest = memoryview(data)
        while rest:
            await trio.lowlevel.wait_writable(self._input)
            with suppress(BlockingIOError):
                rest = rest[os.write(self._input.fileno(), rest) :]

    async def end_input(self) -> None:
        """Close its input, which ends a terminal, too; RpcError."""
        self._input.close()
        # Until this call the shim has the pipe open as well.
        request = tasks_pb2.CloseIORequest(container_id=self._id, stdin=True)
        await self._containerd.remove("tasks.v1.Tasks/CloseIO", request)

    async def resize(self, width: int, height: int) -> None:
        """Set columns and rows of its terminal; RpcError."""
        request = tasks_pb2.ResizePtyRequest(
            container_id=self._id,
            width=min(max(width, 0), MAX_SIDE),
            height=min(max(height, 0), MAX_SIDE),
        )
        await self._containerd.remove("tasks.v1.Tasks/ResizePty", request)

    def signal(self, number: signal.Signals, *, group: bool) -> None:
        """Send a signal to its first process, or to the process group of that, unless it has ended."""
        if group:
            self._child.signal_group(number)
        else:
            self._child.signal(number)

    async def wait(self) -> int:
        """Wait for the end of its first process: the exit code."""
        return await self._child.wait()


@asynccontextmanager
async def run_attached(
    containerd: Containerd,
    spec: ContainerSpec,
    image: Image | None,
    *,
    id: str,
    group: str,
    oom_score_adj: int,
) -> AsyncGenerator[Attached]:
    """Run a container for as long as the context is open. UserError, RpcError, OSError."""
    with open_named_pipe(f"{id}-in") as given, open_named_pipe(f"{id}-out") as output:
        os.set_blocking(given.writing.fileno(), False)
        placement = Placement(
            id=id, group=group, oom_score_adj=oom_score_adj, input=given.path, output=output.path
        )
        try:
            async with run_container(containerd, spec, image, placement) as child:
                output.writing.close()  # the shim has it: the output ends with the last that can write
                yield Attached(containerd, id, child, output.reading, given.writing)
        finally:
            await remove_at_end(containerd, id)
