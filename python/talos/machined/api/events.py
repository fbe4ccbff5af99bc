"""Events: what happened on the node, and what happens from now on."""

import re
from collections.abc import Mapping

from google.protobuf.any_pb2 import Any

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.machined.node.ports import Event, Node, UnknownEventError

_XID = re.compile(r"[0-9a-v]{20}")
"""An xid: 12 bytes in base32 with the extended hexadecimal alphabet."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def events(request: pb.EventsRequest, call: Call, send: Send) -> None:
        del call
        if request.tail_id and not _XID.fullmatch(request.tail_id):
            raise RpcError(
                Code.INVALID_ARGUMENT, f'error parsing tail_id: "{request.tail_id}" is no event id'
            )
        try:
            async with node.events.follow(
                tail=request.tail_events,
                after_id=request.tail_id,
                seconds=max(request.tail_seconds, 0),
                actor_id=request.with_actor_id,
            ) as stream:
                # Says that nothing is missed from here on.
                await send(pb.Event())
                async for event in stream:
                    await send(make_event(event))
        except UnknownEventError:
            raise RpcError(
                Code.NOT_FOUND, f'event "{request.tail_id}" is not in the log, which keeps the newest only'
            ) from None

    return {"Events": events}


def make_event(event: Event) -> pb.Event:
    """An event as a frame."""
    name = event.payload.DESCRIPTOR.full_name
    return pb.Event(
        data=Any(type_url=f"talos/runtime/{name}", value=event.payload.SerializeToString()),
        id=event.id,
        actor_id=event.actor_id,
    )
