"""Following objects of the Kubernetes API: no request while nothing changes.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote

import trio

from talos.kubed.admin import find_pause
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.watch import Object, Watch, check_event, make_path

BUFFER = 16
"""Events that wait for a busy reader."""

type Handle = Callable[[str, Object], Awaitable[object]]
"""Gets what has happened (ADDED, MODIFIED, DELETED) and the object."""


async def follow(
    connect: Callable[[], KubernetesClient], collection: str, selector: str, handle: Handle
) -> None:
    """Hand over the objects of a collection, then every change, until KubernetesError.

    ``selector`` is one of fields, such as ``metadata.name=one``. An object that went away between two
    tries is not reported as deleted: a reader that begins anew begins with nothing.
    """
    query = f"{collection}?fieldSelector={quote(selector)}"
    version = ""
    # Part by part: what a kubelet puts into its requests never has to be in memory at once.
    async for page in connect().pages(query):
        version = page["metadata"]["resourceVersion"]
        for found in page["items"]:
            await handle("ADDED", found)
    while True:
        async with _open_stream(connect(), make_path(query, version)) as events:
            async for event in events:
                found = check_event(event)
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

    async def record(event: str, found: Object) -> None:
        nonlocal began
        began = trio.current_time()
        await handle(event, found)

    while True:
        try:
            await follow(connect, collection, selector, record)
        except KubernetesError as error:
            report(error)
        await trio.sleep(find_pause(began, least_pause))


@asynccontextmanager
async def _open_stream(
    client: KubernetesClient, path: str
) -> AsyncGenerator[trio.MemoryReceiveChannel[Object]]:
    """The events of one watch, read by a thread that ends with the context."""
    watch = Watch(client)
    events_in, events_out = trio.open_memory_channel[Object](BUFFER)

    async def read() -> None:
        with events_in:
            await trio.to_thread.run_sync(_read, watch, path, events_in, abandon_on_cancel=True)

    errors: list[KubernetesError] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            yield events_out
            nursery.cancel_scope.cancel()
    except* KubernetesError as group:
        errors = [error for error in group.exceptions if isinstance(error, KubernetesError)]
    finally:
        watch.end()
    if errors:
        raise errors[0]


def _read(watch: Watch, path: str, events: trio.MemorySendChannel[Object]) -> None:
    try:
        for event in watch.read(path):
            trio.from_thread.run(events.send, event)
    except (trio.BrokenResourceError, trio.Cancelled, trio.RunFinishedError):
        return  # the reader is gone
