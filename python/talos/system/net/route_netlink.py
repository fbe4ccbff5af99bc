"""Requests to the kernel's links, addresses, routes and rules: pyroute2 makes and parses their messages."""

import errno
import os
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio
from pyroute2.iproute.linux import RTNL_API
from pyroute2.netlink import NLMSG_DONE, NLMSG_ERROR
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from talos.system.net.links import LinkError
from talos.system.net.netlink import receive

_SEQUENCE_AND_SENDER = struct.Struct("=II")
_SEQUENCE_OFFSET = 8
_RECEIVE_BYTES = 1 << 16
ANSWER_TIMEOUT = 30.0
"""Seconds; the kernel answers at once, a driver may reset its hardware first."""


class _NoCallbacks:
    """What pyroute2 keeps of requests that wait for answers: here none do."""

    seq_map: dict[int, object] = {}  # noqa: RUF012 - nothing is put into it

    def alloc(self) -> int:
        return 0

    def free(self, number: int, ban: int = 0) -> None:
        pass

    def ensure_tag(self, number: int) -> None:
        pass

    free_tag = ensure_tag

    async def put(self, number: int, message: bytes) -> None:
        pass


class _Encoder(RTNL_API):
    """pyroute2's requests, collected in ``batch`` as it does for its own batches."""

    def __init__(self) -> None:
        self.addr_pool = self.marshal = self.msg_queue = _NoCallbacks()
        self.status = {"nlm_echo": False, "strict_check": False}
        self.epid = 0
        self.batch = b""
        self.callbacks: list[object] = []

    async def setup_endpoint(self) -> None:
        pass

    async def get(self, **_: object) -> AsyncGenerator[object]:
        """No answers."""
        for message in ():
            yield message


class RouteNetlink:
    """One socket. A request is as pyroute2 names it: what it is about, such as ``link``, verb, attributes."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, 0)
        self._socket.bind((0, 0))
        self._marshal: Any = MarshalRtnl()
        self._encoder: Any = _Encoder()
        self._sequence = 0
        # The kernel refuses (EBUSY) a second dump on a socket whose first one is not read to its end.
        self._turn = trio.Lock()

    def close(self) -> None:
        """End it."""
        self._socket.close()

    async def dump(self, what: str, take: Callable[[Any], object], **attributes: Any) -> None:
        """Pass all entries of a table on as they come: a message has the size of five states. LinkError."""
        await self._request(what, "dump", attributes, take)

    async def change(self, what: str, verb: str, **attributes: Any) -> None:
        """Change something; LinkError."""
        await self._request(what, verb, attributes, lambda _: None)

    async def _request(
        self, what: str, verb: str, attributes: dict[str, Any], take: Callable[[Any], object]
    ) -> None:
        given = ", ".join(f"{key}={value}" for key, value in attributes.items())
        async with self._turn:
            with _refusals(f"{verb} {given}"):
                self._encoder.batch = b""
                await getattr(self._encoder, what)(verb, **attributes)
                # Not cancelled halfway: the rest of the answer would be in the way of the next one.
                with trio.move_on_after(ANSWER_TIMEOUT, shield=True):
                    await self._exchange(bytearray(self._encoder.batch), take)
                    return
        raise LinkError(errno.ETIMEDOUT, f"{verb} {given}: {os.strerror(errno.ETIMEDOUT)}")

    async def _exchange(self, request: bytearray, take: Callable[[Any], object]) -> None:
        self._sequence += 1
        _SEQUENCE_AND_SENDER.pack_into(request, _SEQUENCE_OFFSET, self._sequence, 0)
        self._socket.send(request)
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = receive(self._socket, _RECEIVE_BYTES)
            except BlockingIOError:  # it was a program's
                continue
            for message in self._marshal.parse(data):
                header = message["header"]
                if header["sequence_number"] != self._sequence:
                    continue
                if header["error"] is not None:
                    raise header["error"]
                if header["type"] in {NLMSG_DONE, NLMSG_ERROR}:
                    return
                take(message)


@contextmanager
def _refusals(what: str) -> Generator[None]:
    try:
        yield
    except NetlinkError as error:
        code: int = error.code  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        raise LinkError(code, f"{what}: {os.strerror(code)}") from None
