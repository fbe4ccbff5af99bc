"""Logs and events for logd, which sends them away: this side never waits for a destination.

Every call reads the rings at its own pace. What a ring has dropped by then is counted in the next reply.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import trio
from google.protobuf.any_pb2 import Any

from talos.api.internal import feed_pb2 as pb
from talos.api.rpc import Call, Code, RpcError, Send, Service
from talos.api.siderolink.events_pb2 import EventRequest
from talos.machined.logs.kubernetes_audit import FOLDER, POLL_INTERVAL, ReadPosition, read_chunk
from talos.machined.logs.store import LogStore
from talos.machined.node.ports.logs import Event, Events
from talos.system.kmsg import DEVICE, KmsgReader

TYPE_PREFIX = "type.googleapis.com/"
"""Of the types of events in a sink; those that the API shows have another one."""


def make_feed_service(
    logs: LogStore, events: Events, *, has_kernel: bool, device: str = DEVICE, audit: Path = FOLDER
) -> Service:
    """The service ``Feed``."""

    async def send_logs(request: pb.LogsRequest, call: Call, send: Send) -> None:
        del call
        async with aclosing(logs.follow_all(request.places)) as parts:
            async for part in parts:
                await send(part)

    async def send_kernel(request: pb.KernelRequest, call: Call, send: Send) -> None:
        del call
        async with aclosing(_follow_kernel(device if has_kernel else "", request)) as records:
            async for record in records:
                await send(record)

    async def send_kubernetes_audit(request: pb.KubernetesAuditRequest, call: Call, send: Send) -> None:
        del call
        async with aclosing(_follow_audit(audit, request)) as parts:
            async for part in parts:
                await send(part)

    async def send_events(request: pb.EventsRequest, call: Call, send: Send) -> None:
        del call
        async with events.follow(tail=-1) as stream:
            async for event in stream:
                if event.number > request.had:
                    await send(make_event(event))

    return Service(
        pb.DESCRIPTOR.services_by_name["Feed"],
        {
            "Logs": send_logs,
            "Kernel": send_kernel,
            "KubernetesAudit": send_kubernetes_audit,
            "Events": send_events,
        },
    )


def make_event(event: Event) -> pb.EventRecord:
    """An event as a sink gets it."""
    data = Any(
        type_url=TYPE_PREFIX + event.payload.DESCRIPTOR.full_name, value=event.payload.SerializeToString()
    )
    return pb.EventRecord(
        number=event.number, event=EventRequest(data=data, id=event.id, actor_id=event.actor_id)
    )


async def _follow_audit(
    folder: Path, request: pb.KubernetesAuditRequest
) -> AsyncGenerator[pb.KubernetesAuditPart]:
    had = ReadPosition(inode=request.after.inode, offset=request.after.bytes)
    after = had if request.HasField("after") else None
    while True:
        chunk = await trio.to_thread.run_sync(read_chunk, folder, after)
        if chunk is None:
            await trio.sleep(POLL_INTERVAL)
            continue
        after = chunk.position
        place = pb.FilePlace(inode=after.inode, bytes=after.offset)
        yield pb.KubernetesAuditPart(lines=chunk.lines, place=place, has_gap=chunk.has_gap)


async def _follow_kernel(device: str, request: pb.KernelRequest) -> AsyncGenerator[pb.KernelRecord]:
    if not device:
        raise RpcError(Code.FAILED_PRECONDITION, "a container does not see the kernel's log")
    after = request.after if request.HasField("after") else -1
    try:
        reader = KmsgReader(device=device)
    except OSError as error:
        text = f"the kernel's log can't be read here: {error.strerror}"
        raise RpcError(Code.FAILED_PRECONDITION, text) from None
    try:
        while True:
            for message in reader.read():
                if message.sequence > after:
                    yield pb.KernelRecord(
                        sequence=message.sequence,
                        microseconds=round(message.seconds * 1e6),
                        facility=message.facility,
                        priority=message.priority,
                        text=message.text,
                    )
            await trio.lowlevel.wait_readable(reader.fd)
    finally:
        reader.close()
