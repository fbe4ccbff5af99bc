"""What every daemon runs, run once before daemons are forked, so that they share it.

The interpreter writes to code that runs: it counts, and puts what it has learned into the code. In a daemon
that has just been forked every such page becomes its own. Code that has run before has settled.
"""

import asyncio
import gc
import signal
import sys
import traceback
from pathlib import Path
from typing import override

import trio

from talos.api.definitions.k8s_pb2 import NodenameSpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec
from talos.process.follow import follow
from talos.process.run import Daemon, host
from talos.resource import changes, ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.remote.mirror import mirror
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.rpc.channel import open_channel
from talos.rpc.server import serve
from talos.system.logging import Log

SOCKET = Path("/run/warm-up.sock")
WARM_UP_TIMEOUT = 5.0
"""Seconds; a daemon that waits to be forked waits for this."""
ROUNDS = 3
"""Changes that a controller follows; code settles after a few."""


class _Controller(Reconciler):
    """Writes one resource after the changes of another."""

    name = "daemon.WarmUpController"
    inputs = (Input(kinds.HOSTNAME_STATUS),)
    outputs = (Output(kinds.NODENAME),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        async with runtime.track_outputs():
            hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
            if hostname is not None:
                await runtime.put(*ids.NODENAME, NodenameSpec(nodename=hostname.spec.hostname))


def warm_up(socket: Path = SOCKET) -> None:
    """Serve a State and run a controller on it. A failure is reported and has no other effect."""
    try:
        asyncio.run(_run(socket))
    except Exception:  # noqa: BLE001 - daemons run without it, too
        sys.stderr.write(f"zygote: the warm-up failed\n{traceback.format_exc()}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    socket.unlink(missing_ok=True)
    gc.collect()


async def _run(socket: Path) -> None:
    async def main(daemon: Daemon) -> None:
        with trio.move_on_after(WARM_UP_TIMEOUT) as scope:
            await _exercise(daemon, socket)
        if scope.cancelled_caught:
            daemon.log.info(f"the warm-up is left after {WARM_UP_TIMEOUT:g} s, for daemons to start")

    await host(main, "zygote", Log({"service": "zygote"}))


async def _exercise(daemon: Daemon, socket: Path) -> None:
    state, controllers = MemoryState(), [_Controller()]
    latest, changed = "", trio.Event()

    def take(spec: NodenameSpec | None) -> None:
        nonlocal latest
        latest = spec.nodename if spec is not None else ""
        changed.set()

    async with (
        serve(daemon, [make_state_service(state)], socket, grace=0.0),
        open_channel(daemon, socket) as transport,
        mirror(RemoteState(transport), controllers, ()) as copy,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(run_controllers, copy, controllers)
        nursery.start_soon(follow, RemoteState(transport), *ids.NODENAME, take, daemon.log)
        for number in range(ROUNDS):
            await changes.put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname=f"host{number}"))
            while latest != f"host{number}":
                await changed.wait()
                changed = trio.Event()
        nursery.cancel_scope.cancel()
