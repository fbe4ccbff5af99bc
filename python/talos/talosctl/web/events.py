"""What a node itself reports, as it happens: for the page of one node that is open."""

import base64
import binascii
from collections.abc import AsyncGenerator
from typing import Any

from talos.api.machine.machine_pb2 import Event, EventsRequest
from talos.api.rpc import RpcError
from talos.client.events import describe_event
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.web.view import shorten

TAIL = 30
"""Past events to begin with."""


async def follow_events(target: Target, node: str) -> AsyncGenerator[dict[str, Any]]:
    """The node's events, the oldest first; the last one has the reason why there are no more."""
    try:
        async with (
            open_session(target) as session,
            session.stream(
                node, "/machine.MachineService/Events", EventsRequest(tail_events=TAIL), Event
            ) as events,
        ):
            async for event in events:
                raise_error(event)
                if event.data.type_url:  # the first frame of a stream has none
                    yield _make_document(event)
    except (RpcError, UserError) as error:
        yield {"at": 0, "text": shorten(describe(error, target))}


def _make_document(event: Event) -> dict[str, Any]:
    name, source, message = describe_event(event)
    kind = name.rpartition(".")[2].removesuffix("Event")
    return {"at": read_time(event.id), "text": shorten(" ".join(filter(None, (kind, source, message))))}


def read_time(id: str) -> int:
    """The seconds since 1970 that begin an event's id, 12 bytes in base 32; 0 for an id of another form."""
    try:
        return int.from_bytes(base64.b32hexdecode(f"{id.upper()}====")[:4])
    except (binascii.Error, ValueError):
        return 0
