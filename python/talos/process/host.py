"""Running a list of controllers as a daemon."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from talos.api.rpc import Service
from talos.process.callers import make_limits
from talos.process.daemons import BY_NAME
from talos.process.ready import notify_ready
from talos.process.run import Daemon
from talos.process.state import remote_state
from talos.resource.controller.activity import Activities, make_part_service
from talos.resource.controller.controller import Controller
from talos.resource.controller.graph import Edge, dependencies, make_inspect_service
from talos.resource.controller.runtime import run_controllers
from talos.resource.remote.mirror import mirror
from talos.resource.state import State
from talos.rpc.server import serve


async def _nothing() -> None:
    """Most daemons wait for nothing more."""


@asynccontextmanager
async def mirrored_state(daemon: Daemon, controllers: Sequence[Controller]) -> AsyncGenerator[State]:
    """The node's State with copies of what the daemon and its controllers declare to read."""
    reads = BY_NAME[daemon.name].reads
    async with remote_state(daemon) as remote, mirror(remote, controllers, reads) as state:
        yield state


async def run_controller_daemon(
    daemon: Daemon,
    state: State,
    controllers: Sequence[Controller],
    *,
    services: Sequence[Service] = (),
    prepare: Callable[[], Awaitable[None]] = _nothing,
    settle: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Run controllers and serve graph, counts and ``services`` on the daemon's socket until it stops.

    The controllers start when ``prepare`` has returned. The daemon reports readiness when ``settle``,
    which runs beside them, has returned, unless one of the two has done so before.
    """
    edges = dependencies(controllers)

    async def own_edges() -> list[Edge]:
        return edges

    activities: Activities = {}
    served = [*services, make_inspect_service(own_edges), make_part_service(activities)]
    row = BY_NAME[daemon.name]
    async with (
        serve(daemon, served, row.socket, limits=make_limits(row)),
        trio.open_nursery() as nursery,
    ):
        await prepare()
        await nursery.start(partial(run_controllers, state, controllers, activities=activities))
        await settle()
        notify_ready()
        await daemon.stopping.wait()
        nursery.cancel_scope.cancel()
