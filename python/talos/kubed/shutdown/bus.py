"""A system bus of D-Bus on which logind is the one service, for the kubelet."""

import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from talos.kubed.shutdown.inhibitors import Inhibitors
from talos.kubed.shutdown.logind import BUS, BusError, BusReply, MethodCall, answer
from talos.kubed.shutdown.messages import (
    Incoming,
    MessageError,
    MessageReader,
    encode,
    make_error,
    make_prepare_for_shutdown,
    make_reply,
)
from talos.system.logging import Log

MAX_CONNECTIONS = 8
"""The kubelet has one."""
MAX_LINE, MAX_LINES = 256, 16
"""Bytes of a line, and lines, before the first message."""
AUTHENTICATION_TIMEOUT = 10.0  # seconds
"""For a client to authenticate itself."""
SEND_TIMEOUT = 10.0  # seconds
"""For a client to read what it is sent."""
_GUID = b"0" * 32
_CREDENTIALS = struct.Struct("3i")


class AuthenticationError(Exception):
    """A client does not authenticate itself."""


async def serve_bus(
    path: Path,
    inhibitors: Inhibitors,
    log: Log,
    *,
    owner: int = 0,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve processes of the user ``owner`` on a socket at this path until cancelled."""
    await trio.Path(path).unlink(missing_ok=True)
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(str(path))
    listening.listen()
    connections: set[Connection] = set()
    count = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal count
        count += 1
        connection = Connection(stream, inhibitors, f":1.{count}")
        if len(connections) >= MAX_CONNECTIONS:
            log.warning("too many connections to the bus", allowed=MAX_CONNECTIONS)
            return
        connections.add(connection)
        try:
            await connection.run(owner)
        except* (AuthenticationError, MessageError) as group:
            log.warning("a connection to the bus has ended", reason=describe(group))
        except* (OSError, trio.BrokenResourceError, trio.TooSlowError) as group:
            log.debug("a connection to the bus is lost", reason=describe(group))
        finally:
            connections.discard(connection)

    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(listening)
        await nursery.start(partial(trio.serve_listeners, serve, [listener]))
        task_status.started()


class Connection:
    """One client of the bus."""

    def __init__(self, stream: trio.SocketStream, inhibitors: Inhibitors, name: str) -> None:
        self._stream = stream
        self._inhibitors = inhibitors
        self._name = name
        self._reader = MessageReader()
        self._sending = trio.Lock()
        self._serial = 0

    async def run(self, owner: int) -> None:
        """Answer calls until the client ends the connection. AuthenticationError, MessageError."""
        with trio.fail_after(AUTHENTICATION_TIMEOUT):
            await self._authenticate(owner)
        async with trio.open_nursery() as nursery:
            announce = partial(nursery.start_soon, self._announce)
            try:
                while (incoming := await self._receive()) is not None:
                    if incoming.call is not None:
                        await self._answer(incoming, incoming.call, announce)
            finally:
                self._inhibitors.unsubscribe(announce)
                nursery.cancel_scope.cancel()

    async def _authenticate(self, owner: int) -> None:
        """Authenticate the client by its credentials from the kernel."""
        credentials = self._stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _pid, uid, _gid = _CREDENTIALS.unpack(credentials)
        data, is_known = b"", False
        for _ in range(MAX_LINES):
            while b"\r\n" not in data:
                part = await self._stream.receive_some(MAX_LINE)
                data = (data + part).removeprefix(b"\0")
                if not part or len(data) > MAX_LINE:
                    raise AuthenticationError("it has not authenticated itself")
            line, _, data = data.partition(b"\r\n")
            command, _, rest = line.partition(b" ")
            if command == b"BEGIN" and is_known:
                self._reader.add(data)
                return
            if command in {b"AUTH", b"DATA"}:
                reply, is_known = authenticate(command, rest, uid if uid == owner else None)
            else:
                reply = b"AGREE_UNIX_FD" if command == b"NEGOTIATE_UNIX_FD" and is_known else b"ERROR"
            await self._stream.send_all(reply + b"\r\n")
        raise AuthenticationError("it does not end to authenticate itself")

    async def _receive(self) -> Incoming | None:
        """The next message; None at the end of the connection."""
        while missing := self._reader.find_missing():
            part = await self._stream.receive_some(missing)
            if not part:
                return None
            self._reader.add(part)
        return self._reader.take()

    async def _answer(self, incoming: Incoming, call: MethodCall, announce: Callable[[], None]) -> None:
        found = BusReply()
        try:
            found = answer(call, self._inhibitors, self._name)
            reply = make_reply(incoming, found)
        except BusError as error:
            reply = make_error(incoming, error)
        try:
            if incoming.wants_reply:
                await self._send(reply, by_bus=call.destination == BUS)
        finally:
            if found.descriptor is not None:
                os.close(found.descriptor)
        if found.follows:
            self._inhibitors.subscribe(announce)

    async def _announce(self) -> None:
        await self._send(make_prepare_for_shutdown())

    async def _send(self, message: Any, *, by_bus: bool = False) -> None:
        async with self._sending:
            self._serial += 1
            data, descriptors = encode(message, self._serial, client=self._name, by_bus=by_bus)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else []
            with trio.fail_after(SEND_TIMEOUT):
                sent = await self._stream.socket.sendmsg([data], rights)
                await self._stream.send_all(data[sent:])


def authenticate(command: bytes, rest: bytes, uid: int | None) -> tuple[bytes, bool]:
    """The reply to AUTH or DATA, and whether the client may begin. One without the right has no ``uid``."""
    mechanism, _, identity = rest.partition(b" ") if command == b"AUTH" else (b"EXTERNAL", b"", rest)
    if mechanism != b"EXTERNAL" or uid is None:
        return b"REJECTED EXTERNAL", False
    if command == b"AUTH" and not identity:
        return b"DATA", False
    # Without a name it is the user that the kernel reports.
    if identity and identity != str(uid).encode().hex().encode():
        return b"REJECTED EXTERNAL", False
    return b"OK " + _GUID, True


def describe(group: BaseExceptionGroup[Exception]) -> str:
    """The innermost error of a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
