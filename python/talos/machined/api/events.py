"""Events: past events of the node, then new ones."""

import re
from collections.abc import Mapping

from google.protobuf.any_pb2 import Any

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.config.values import Duration
from talos.machined.node.ports.logs import Event
from talos.machined.node.ports.node import Node

_XID = re.compile(r"[0-9a-v]{20}")
"""An xid: 12 bytes in base32 with the extended hexadecimal alphabet."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def events(request: pb.EventsRequest, _call: Call, send: Send) -> None:
        after_id, seconds = parse_start(request)
        async with node.events.follow(
            tail=request.tail_events, after_id=after_id, seconds=seconds, actor_id=request.with_actor_id
        ) as stream:
            # Nothing is missed from here on. Clients recognize this frame by its empty type.
            await send(pb.Event(data=Any(), id=node.events.make_id(), actor_id=request.with_actor_id))
            async for event in stream:
                await send(make_event(event))

    return {"Events": events}


def parse_start(request: pb.EventsRequest) -> tuple[str, float]:
    """The event after which the stream starts, and how many seconds ago.

    A duration in place of the event's id means that long ago.
    """
    seconds = float(max(request.tail_seconds, 0))
    if not request.tail_id or _XID.fullmatch(request.tail_id):
        return request.tail_id, seconds
    ago = Duration(request.tail_id)
    try:
        ago.check()
    except ValueError:
        text = f'error parsing tail_id: "{request.tail_id}" is neither an event id nor a duration such as 24h'
        raise RpcError(Code.INVALID_ARGUMENT, text) from None
    return "", seconds or max(ago.seconds, 0.0)


def make_event(event: Event) -> pb.Event:
    """An event as a frame."""
    name = event.payload.DESCRIPTOR.full_name
    return pb.Event(
        data=Any(type_url=f"talos/runtime/{name}", value=event.payload.SerializeToString()),
        id=event.id,
        actor_id=event.actor_id,
    )
