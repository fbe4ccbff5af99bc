"""Passing calls on to the server on another unix socket, as bytes and unchanged, from trio."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from talos.rpc.bridge import Host
from talos.rpc.channel import open_local
from talos.rpc.handlers import ServeCall, run_handler
from talos.rpc.http2.client import LocalChannel
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status
from talos.rpc.proxy.raw import receive_one, send_only, take_replies


@asynccontextmanager
async def open_passage(host: Host, path: Path | str) -> AsyncGenerator[ServeCall]:
    """What serves calls that have one request each, and any number of replies, by passing them on.

    While nothing listens a call ends with UNAVAILABLE.
    """
    async with open_local(host, path) as channel:

        async def serve(call: ServerCall) -> None:
            await run_handler(partial(_pass_on, channel), call, host.log)

        yield serve


async def _pass_on(channel: LocalChannel, call: ServerCall) -> Status:
    request = await receive_one(call)
    upstream = await channel.begin(call.method, call.metadata, call.time_remaining())
    try:
        await send_only(upstream, request)
        return await take_replies(call, upstream)
    finally:
        upstream.cancel()
