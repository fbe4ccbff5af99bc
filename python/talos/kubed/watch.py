"""Following objects of the Kubernetes API: nothing is asked while nothing changes.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import quote

import trio

from talos.kubed.admin import find_pause
from talos.kubernetes.client import JSON, MAX_REPLY, KubernetesClient, KubernetesError

PERIOD = 300.0
"""Seconds after which the server ends a watch, which is then begun again where it was."""
SPARE = 15.0
"""Seconds beyond the period until a server counts as lost."""
KEEPALIVE = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""Seconds, seconds and number: how a connection whose other end is gone is noticed."""
BUFFER = 16
"""Events that wait for a busy reader."""

type Object = Mapping[str, Any]
type Handle = Callable[[str, Object], Awaitable[object]]
"""Gets what has happened (ADDED, MODIFIED, DELETED) and the object."""


async def follow(
    connect: Callable[[], KubernetesClient], collection: str, selector: str, handle: Handle
) -> None:
    """Hand over the objects of a collection, then every change, until KubernetesError.

    ``selector`` is one of fields, such as ``metadata.name=one``. An object that went away between two
    tries is not reported as deleted: whoever begins anew begins with nothing.
    """
    query = f"{collection}?fieldSelector={quote(selector)}"
    listed = await connect().call("GET", query)
    version = listed["metadata"]["resourceVersion"]
    for found in listed["items"]:
        await handle("ADDED", found)
    while True:
        path = f"{query}&watch=1&resourceVersion={version}&timeoutSeconds={PERIOD:.0f}&allowWatchBookmarks=1"
        async with _open_stream(connect(), path) as events:
            async for event in events:
                found = event["object"]
                if event["type"] == "ERROR":
                    raise KubernetesError(int(found.get("code", 0)), str(found.get("message")))
                version = found["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    await handle(event["type"], found)


async def keep_following(
    connect: Callable[[], KubernetesClient],
    collection: str,
    selector: str,
    handle: Handle,
    report: Callable[[KubernetesError], object],
    *,
    least_pause: float,
) -> None:
    """Follow until cancelled. ``report`` gets each failure, after which all objects are handed over again.

    ``least_pause`` are the seconds between two tries at first; more when the API takes long.
    """
    began = trio.current_time()

    async def note(event: str, found: Object) -> None:
        nonlocal began
        began = trio.current_time()
        await handle(event, found)

    while True:
        try:
            await follow(connect, collection, selector, note)
        except KubernetesError as error:
            report(error)
        await trio.sleep(find_pause(began, least_pause))


@asynccontextmanager
async def _open_stream(
    client: KubernetesClient, path: str
) -> AsyncGenerator[trio.MemoryReceiveChannel[Object]]:
    """The events of one watch, read by a thread that ends with the context."""
    connection = client.open(PERIOD + SPARE)
    events_in, events_out = trio.open_memory_channel[Object](BUFFER)

    async def read() -> None:
        with events_in:
            await trio.to_thread.run_sync(_read, connection, path, events_in, abandon_on_cancel=True)

    errors: list[KubernetesError] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            yield events_out
            nursery.cancel_scope.cancel()
    except* KubernetesError as group:
        errors = [error for error in group.exceptions if isinstance(error, KubernetesError)]
    finally:
        _end(connection)
    if errors:
        raise errors[0]


def _end(connection: HTTPSConnection) -> None:
    """Wake the thread that reads from it, which closes it; TLS itself is not to be touched by two."""
    with suppress(OSError):
        if connection.sock is not None:
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _read(connection: HTTPSConnection, path: str, events: trio.MemorySendChannel[Object]) -> None:
    try:
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.request("GET", path, headers={"Accept": JSON})
        response = connection.getresponse()
        while line := response.readline(MAX_REPLY):
            event = cast("Object", json.loads(line))
            if "type" not in event:  # the API refuses with one Status
                raise KubernetesError(response.status, str(event.get("message")))
            trio.from_thread.run(events.send, event)
    except (OSError, HTTPException, ValueError) as error:
        raise KubernetesError(0, f"{connection.host}:{connection.port}: {error}") from error
    except (trio.BrokenResourceError, trio.Cancelled, trio.RunFinishedError):
        return  # nobody reads any more
    finally:
        connection.close()
