"""Requests to key management services, which kmsd calls: what they answer is not for PID 1 to parse."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

import trio

from talos.api.internal import keys_pb2 as pb
from talos.api.rpc import Call, Send, Service
from talos.system.block.luks_header import MAX_SEALED
from talos.system.errors import UserError
from talos.system.wakeup import Signal

TIMEOUT = 15.0
"""Seconds for one request, the start of kmsd included."""
MAX_ERROR = 300
"""Characters of a reason."""


@dataclass(slots=True)
class _Open:
    request: pb.KeyRequest
    answered: trio.Event = field(default_factory=trio.Event)
    answer: pb.KeyAnswer = field(default_factory=pb.KeyAnswer)


class KeyRequests:
    """The open requests. :attr:`changed` is notified when one comes or goes."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._last = 0
        self.changed = Signal()

    @property
    def is_empty(self) -> bool:
        """Whether no request is open."""
        return not self._open

    async def call(self, endpoint: str, node_uuid: str, data: bytes, *, seal: bool) -> bytes:
        """What a service answers, at least one byte. UserError."""
        self._last += 1
        opened = _Open(
            pb.KeyRequest(number=self._last, endpoint=endpoint, node_uuid=node_uuid, seal=seal, data=data)
        )
        self._open[self._last] = opened
        self.changed.notify()
        try:
            with trio.move_on_after(TIMEOUT):
                await opened.answered.wait()
        finally:
            del self._open[opened.request.number]
            self.changed.notify()
        if not opened.answered.is_set():
            raise UserError(f"no answer in {TIMEOUT:.0f} s")
        if opened.answer.error:
            raise UserError(_format_error(opened.answer.error))
        if not 0 < len(opened.answer.data) <= MAX_SEALED:
            raise UserError(f"an answer of {len(opened.answer.data)} bytes is none")
        return opened.answer.data

    async def follow(self) -> AsyncGenerator[pb.KeyRequest]:
        """Every open request, then those that come."""
        sent = 0
        while True:
            for number in sorted(self._open):
                if number > sent and number in self._open:
                    sent = number
                    yield self._open[number].request
            if not any(number > sent for number in self._open):
                await self.changed.wait()

    def answer(self, answer: pb.KeyAnswer) -> None:
        """Take an answer; one that comes too late is dropped."""
        opened = self._open.get(answer.number)
        if opened is not None:
            opened.answer = answer
            opened.answered.set()


def make_key_service(requests: KeyRequests) -> Service:
    """The service ``Keys``, for kmsd."""

    async def follow(request: pb.FollowRequest, call: Call, send: Send) -> None:
        del request, call
        async with aclosing(requests.follow()) as found:
            async for one in found:
                await send(one)

    async def answer(request: pb.KeyAnswer, call: Call) -> pb.KeyAnswerReply:
        del call
        requests.answer(request)
        return pb.KeyAnswerReply()

    return Service(pb.DESCRIPTOR.services_by_name["Keys"], {"Follow": follow, "Answer": answer})


def _format_error(text: str) -> str:
    """One line: it has words of a server."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_ERROR])
