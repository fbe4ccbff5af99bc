"""A gRPC server on a unix socket, whose handlers are trio functions."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import trio

from talos.api.rpc import Service
from talos.rpc.bridge import Host
from talos.rpc.handlers import make_method_handlers
from talos.rpc.limits import LOCAL_WINDOW, MESSAGE_OPTIONS

SOCKET_UMASK = 0o117
"""Sockets are 0660; the group comes from their directory, which is setgid."""

GRACE = 2.0
"""Seconds that open calls have to finish when a server stops; streams rarely do by themselves."""


@asynccontextmanager
async def serve(
    host: Host, services: Sequence[Service], path: Path | str, *, grace: float = GRACE
) -> AsyncGenerator[None]:
    """Serve on a unix socket for as long as the context is open.

    Leaving it takes no new calls, gives the open ones ``grace`` seconds, then cancels them.
    """
    bridge = host.bridge
    async with trio.open_nursery() as calls:
        server = grpc.aio.server(options=(*MESSAGE_OPTIONS, *LOCAL_WINDOW))
        for service in services:
            methods = make_method_handlers(host, service, calls)
            handler = grpc.method_handlers_generic_handler(service.descriptor.full_name, methods)
            server.add_generic_rpc_handlers((handler,))
        _bind(server, str(path))
        await bridge.call(server.start)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await bridge.call(_stop, server, grace)
            calls.cancel_scope.cancel()


def _bind(server: grpc.aio.Server, path: str) -> None:
    before = os.umask(SOCKET_UMASK)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(before)


async def _stop(server: grpc.aio.Server, grace: float) -> None:
    await server.stop(grace)
    await asyncio.sleep(0)  # let the handlers' tasks see their cancellation
