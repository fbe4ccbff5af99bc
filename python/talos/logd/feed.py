"""What PID 1 hands over, followed across its pauses: each stream goes on where it ended."""

import time
from collections.abc import Awaitable, Callable, Mapping

import trio
from google.protobuf.message import Message

from talos.api.internal import feed_pb2 as pb
from talos.api.rpc import Code, RpcError, Transport
from talos.logd.delivery import Delivery
from talos.logd.lines import (
    AUDIT_SERVICE,
    make_audit_message,
    make_kernel_message,
    make_note,
    make_service_message,
)
from talos.system.logging import Log

LOGS = "/talos.internal.Feed/Logs"
KUBERNETES_AUDIT = "/talos.internal.Feed/KubernetesAudit"
KERNEL = "/talos.internal.Feed/Kernel"
EVENTS = "/talos.internal.Feed/Events"
RETRY_DELAY = 1.0
"""Seconds until a stream that has ended is begun again."""
TOO_SLOW = "the destination was too slow"


class Feed:
    """The streams of PID 1, over a transport that waits while PID 1 doesn't listen."""

    def __init__(self, transport: Transport, log: Log, now: Callable[[], float] = time.time) -> None:
        self._transport, self._log, self._now = transport, log, now

    async def send_logs(self, delivery: Delivery, tags: Mapping[str, str]) -> None:
        """Deliver the lines of all services, from the oldest that are kept, until cancelled."""
        places: dict[str, pb.LogPlace] = {}

        async def take(part: pb.LogPart) -> None:
            now = self._now()
            messages: list[bytes] = []
            if part.missed:
                delivery.note_lost(part.missed, TOO_SLOW)
                messages.append(make_missing(part.missed, now, {"talos-service": part.id, **tags}))
            made = (make_service_message(part.id, line, now, tags) for line in part.lines.split(b"\n"))
            messages += filter(None, made)
            if messages:
                await delivery.put(messages)
            places[part.id] = part.place

        await self._follow(LOGS, lambda: pb.LogsRequest(places=places), pb.LogPart, take)

    async def send_kubernetes_audit(self, delivery: Delivery, tags: Mapping[str, str]) -> None:
        """Deliver the records of the API server's calls until cancelled."""
        place: pb.FilePlace | None = None

        async def take(part: pb.KubernetesAuditPart) -> None:
            nonlocal place
            now = self._now()
            messages: list[bytes] = []
            if part.has_gap:
                delivery.note_lost(1, TOO_SLOW)
                fields = {"talos-service": AUDIT_SERVICE, **tags}
                messages.append(make_note(f"lines are missing here: {TOO_SLOW}", now, fields))
            made = (make_audit_message(line, now, tags) for line in part.lines.split(b"\n"))
            messages += filter(None, made)
            if messages:
                await delivery.put(messages)
            place = part.place

        await self._follow(
            KUBERNETES_AUDIT,
            lambda: pb.KubernetesAuditRequest(after=place),
            pb.KubernetesAuditPart,
            take,
        )

    async def send_kernel(self, delivery: Delivery) -> None:
        """Deliver the records of the kernel's log until cancelled."""
        last: int | None = None

        async def take(record: pb.KernelRecord) -> None:
            nonlocal last
            now = self._now()
            messages: list[bytes] = []
            if last is not None and (missed := record.sequence - last - 1) > 0:
                delivery.note_lost(missed, TOO_SLOW)
                messages.append(make_missing(missed, now, {}))
            booted = now - time.clock_gettime(time.CLOCK_MONOTONIC)
            await delivery.put([*messages, make_kernel_message(record, booted)])
            last = record.sequence

        await self._follow(KERNEL, lambda: pb.KernelRequest(after=last), pb.KernelRecord, take)

    async def follow_events(
        self, take: Callable[[pb.EventRecord], Awaitable[None]], had: Callable[[], int]
    ) -> None:
        """Hand over every event after number ``had``, from the oldest that is kept, until cancelled."""
        await self._follow(EVENTS, lambda: pb.EventsRequest(had=had()), pb.EventRecord, take)

    async def _follow[R: Message](
        self,
        method: str,
        make_request: Callable[[], Message],
        reply: type[R],
        take: Callable[[R], Awaitable[None]],
    ) -> None:
        while True:
            try:
                async with self._transport.stream(method, make_request(), reply) as replies:
                    async for message in replies:
                        await take(message)
            except RpcError as error:
                self._log.once(f"{method} has ended: {error.reason}")
                if error.code is Code.FAILED_PRECONDITION:
                    return
            await trio.sleep(RETRY_DELAY)


def make_missing(count: int, now: float, fields: Mapping[str, str]) -> bytes:
    """The message that stands where lines are missing."""
    lines = "1 line is" if count == 1 else f"{count} lines are"
    return make_note(f"{lines} missing here: {TOO_SLOW}", now, fields)
