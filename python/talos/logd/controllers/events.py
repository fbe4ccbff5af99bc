"""Events that leave the node, to a sink by gRPC."""

import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import override
from urllib.parse import urlsplit

import trio

from talos.api.internal.feed_pb2 import EventRecord
from talos.api.rpc import RpcError, Transport
from talos.api.siderolink.events_pb2 import EventResponse
from talos.logd.feed import Feed
from talos.logd.tasks import TaskSet
from talos.resource import ids
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.rpc.port.remote import RemoteServer
from talos.system.backoff import Backoff
from talos.system.logging import Log

PUBLISH = "/events.EventSinkService/Publish"
PUBLISH_TIMEOUT = 15.0
"""Seconds for one event."""
RETRY_BACKOFF = Backoff(0.5, 30.0)
"""Seconds until an event that was not taken is sent again."""
MAX_REPLY = 64 * 1024
TLS = "tls://"

type Connect = Callable[[RemoteServer], AbstractAsyncContextManager[Transport]]


class EventsSinkController(Controller):
    """EventSinkConfig → every event to its sink, one at a time, until it is acknowledged."""

    name = "runtime.EventsSinkController"
    inputs = (Input(*ids.EVENT_SINK_CONFIG),)

    def __init__(self, feed: Feed, connect: Connect, log: Log) -> None:
        self._feed, self._connect, self._log = feed, connect, log
        self.had = 0
        """The number of the last event that a sink has acknowledged."""

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        async with trio.open_nursery() as nursery:
            tasks = TaskSet[str](nursery)
            async for _ in runtime.events():
                config = await runtime.get_or_none(*ids.EVENT_SINK_CONFIG)
                endpoints = [config.spec.endpoint] if config else []
                tasks.follow({endpoint: self._make_task(endpoint) for endpoint in endpoints})
                runtime.reset_backoff()

    def _make_task(self, endpoint: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                await trio.to_thread.run_sync(make_server, endpoint)
            except ValueError as error:
                self._log.error("the sink of events can't be used", reason=str(error))
                return
            self._log.info("events are sent", sink=endpoint)
            async with _Sink(endpoint, self._connect) as sink:

                async def take(record: EventRecord) -> None:
                    await self._publish(sink, record)

                await self._feed.follow_events(take, lambda: self.had)

        return run

    async def _publish(self, sink: "_Sink", record: EventRecord) -> None:
        endpoint = sink.endpoint
        if self.had and (missed := record.number - self.had - 1) > 0:
            self._log.warning("events are lost", sink=endpoint, count=missed, reason="the sink was too slow")
        for delay in RETRY_BACKOFF:
            try:
                transport = await sink.reach()
                await transport.unary(PUBLISH, record.event, EventResponse, timeout=PUBLISH_TIMEOUT)
            except RpcError as error:
                await sink.leave()
                self._log.once(f"the sink of events fails: {error.reason}", key=endpoint, sink=endpoint)
            else:
                self.had = record.number
                return
            await trio.sleep(delay)


class _Sink(AsyncExitStack):
    """A sink, connected anew after each failure: the node's authorities may have changed."""

    def __init__(self, endpoint: str, connect: Connect) -> None:
        super().__init__()
        self.endpoint = endpoint
        self._connect = connect
        self._transport: Transport | None = None

    async def reach(self) -> Transport:
        """The connection. RpcError."""
        if self._transport is None:
            server = await trio.to_thread.run_sync(make_server, self.endpoint)
            self._transport = await self.enter_async_context(self._connect(server))
        return self._transport

    async def leave(self) -> None:
        """End the connection."""
        self._transport = None
        await self.aclose()


def make_server(endpoint: str) -> RemoteServer:
    """A sink, ``host:port`` in the clear as upstream's or ``tls://host:port``. ValueError."""
    parts = urlsplit(endpoint if endpoint.startswith(TLS) else f"tcp://{endpoint}")
    if not parts.hostname or not parts.port:
        raise ValueError(f'"{endpoint}" needs a host and a port')
    context: ssl.SSLContext | None = None
    if parts.scheme == "tls":
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
    return RemoteServer(host=parts.hostname, port=parts.port, context=context, max_message=MAX_REPLY)
