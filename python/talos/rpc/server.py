"""A gRPC server on a unix socket, whose handlers are trio functions."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from talos.api.rpc import Code, Service
from talos.rpc.bridge import TRIO, Host
from talos.rpc.handlers import HEALTH, OnEnd, ServeCall, answer_health, make_method_handlers
from talos.rpc.http2.local_limits import LocalLimits
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import STOPPING, ServerCall
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.protocol import Status

STOP_TIMEOUT = 2.0
"""Seconds that open calls have to finish when a server stops; streams rarely do by themselves."""


@asynccontextmanager
async def serve(
    host: Host,
    services: Sequence[Service],
    path: Path | str,
    *,
    limits: LocalLimits | None = None,
    max_message: int = MAX_MESSAGE,
    grace: float = STOP_TIMEOUT,
    on_end: OnEnd | None = None,
    others: Mapping[str, ServeCall] | None = None,
) -> AsyncGenerator[None]:
    """Serve on a unix socket for as long as the context is open. Health checks are answered, too.

    Only root, the server's own uid and the callers of ``limits`` may connect.

    ``on_end`` is called after each call, health checks apart. ``others`` serve the methods that are in none
    of the services, by the path of theirs, ``/package.Service``.

    Leaving it takes no new calls, gives the open ones ``grace`` seconds, then cancels them.
    """
    elsewhere = others or {}
    methods: dict[str, ServeCall] = {HEALTH: answer_health}
    for service in services:
        methods |= make_method_handlers(service, host.log, on_end)
    async with trio.open_nursery() as calls:

        def begin(call: ServerCall) -> None:
            method = methods.get(call.method) or elsewhere.get(call.method.rpartition("/")[0])
            if method is None:
                call.finish(Status(code=Code.UNIMPLEMENTED, message=f"unknown method {call.method}"))
                return
            try:
                calls.start_soon(method, call, name=call.method)
            except RuntimeError:  # the nursery is closed
                call.finish(STOPPING)

        server = LocalServer(begin, TRIO, lambda _: max_message, host.log, limits)
        with trio.CancelScope(shield=True):  # cancelled halfway, what listens would stay open
            await host.bridge.call(server.start, path)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await host.bridge.call(server.stop, grace)
            calls.cancel_scope.cancel()
