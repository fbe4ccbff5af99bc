"""A container that runs to its end, whose output is a result."""

import os

import trio

from talos.machined.containerd.client import Containerd
from talos.machined.containerd.container import Placement, run_container
from talos.machined.containerd.pipes import open_named_pipe
from talos.machined.containerd.spec import ContainerSpec
from talos.machined.containerd.store import Image

MAX_OUTPUT = 64 * 1024
"""Bytes of output that are kept, the last ones."""
_READ = 16 * 1024


async def run_to_end(
    containerd: Containerd, spec: ContainerSpec, image: Image, *, id: str, group: str
) -> tuple[int, str]:
    """Run a container: its exit code and what it wrote. UserError, RpcError, OSError."""
    kept = bytearray()
    with open_named_pipe(id) as pipe:
        reading = pipe.reading.fileno()
        placement = Placement(id=id, group=group, oom_score_adj=0, output=pipe.path)
        async with run_container(containerd, spec, image, placement) as child, trio.open_nursery() as nursery:

            async def read() -> None:
                while True:
                    await trio.lowlevel.wait_readable(reading)
                    kept.extend(os.read(reading, _READ))
                    del kept[:-MAX_OUTPUT]

            nursery.start_soon(read)
            code = await child.wait()
            nursery.cancel_scope.cancel()
        while True:
            try:
                kept.extend(os.read(reading, _READ))
            except BlockingIOError:
                break
    return code, kept[-MAX_OUTPUT:].decode(errors="replace")
