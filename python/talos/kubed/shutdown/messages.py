"""Messages of D-Bus, read and written by jeepney.

https://dbus.freedesktop.org/doc/dbus-specification.html
"""

import array
import struct
from dataclasses import dataclass
from typing import Any

import jeepney

from talos.kubed.shutdown.logind import (
    BUS,
    LOGIN,
    LOGIN_PATH,
    MANAGER,
    PREPARE_FOR_SHUTDOWN,
    BusError,
    BusReply,
    MethodCall,
)

MAX_MESSAGE = 16 * 1024
"""Bytes of a message; the kubelet's have some hundred."""
_UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AssertionError, RecursionError, struct.error)
"""What jeepney raises for a message that is none."""
_jeepney: Any = jeepney  # it has no types
_Field = _jeepney.HeaderFields


class MessageError(Exception):
    """What came is no message of D-Bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message that came. ``call`` is None when it is no call."""

    message: Any
    call: MethodCall | None

    @property
    def wants_reply(self) -> bool:
        """Whether its sender waits for an answer."""
        return not self.message.header.flags & _jeepney.MessageFlag.no_reply_expected


class MessageReader:
    """Finds the messages in what a client sends."""

    def __init__(self) -> None:
        self._parser = _jeepney.Parser()

    def add(self, data: bytes) -> None:
        """Take what has been received."""
        self._parser.add_data(data)

    def find_missing(self) -> int:
        """The bytes that may be received until the next message is whole; none when it is. MessageError."""
        try:
            missing: int = self._parser.bytes_desired()
        except _UNREADABLE as error:
            raise MessageError(repr(error)) from None
        size: int = self._parser.next_msg_size or 0
        if size > MAX_MESSAGE:
            raise MessageError(f"a message of {size} bytes, {MAX_MESSAGE} are allowed")
        return max(missing, 0)

    def take(self) -> Incoming:
        """The next message, of which nothing is missing. MessageError."""
        # An array of empty structs, which D-Bus forbids, would be read for ever.
        if b"()" in self._parser.buf.peek(self._parser.next_msg_size):
            raise MessageError("an empty struct")
        try:
            message = self._parser.get_next_message()
        except _UNREADABLE as error:
            raise MessageError(repr(error)) from None
        is_call = message.header.message_type is _jeepney.MessageType.method_call
        return Incoming(message=message, call=_read_call(message) if is_call else None)


def _read_call(message: Any) -> MethodCall:
    names = (_Field.destination, _Field.interface, _Field.member, _Field.signature)
    texts: list[Any] = [message.header.fields.get(name, "") for name in names]
    if not all(isinstance(text, str) for text in texts):
        raise MessageError("a field of the header has a wrong type")
    destination, interface, member, signature = texts
    return MethodCall(
        destination=destination, interface=interface, member=member, signature=signature, body=message.body
    )


def make_reply(incoming: Incoming, answer: BusReply) -> Any:
    """The reply to a call, with the descriptor of the answer in place of its body."""
    body = answer.body if answer.descriptor is None else (answer.descriptor,)
    return _jeepney.new_method_return(incoming.message, answer.signature or None, body)


def make_error(incoming: Incoming, error: BusError) -> Any:
    """The error that a call is answered with."""
    return _jeepney.new_error(incoming.message, error.name, "s", (str(error),))


def make_prepare_for_shutdown() -> Any:
    """The signal that the node begins to end."""
    address = _jeepney.DBusAddress(LOGIN_PATH, LOGIN, MANAGER)
    return _jeepney.new_signal(address, PREPARE_FOR_SHUTDOWN, "b", (True,))


def encode(message: Any, serial: int, *, client: str, by_bus: bool) -> tuple[bytes, "array.array[int]"]:
    """A message to a client as bytes, and the descriptors that go with it."""
    message.header.fields[_Field.sender] = BUS if by_bus else LOGIN
    message.header.fields[_Field.destination] = client
    descriptors = array.array("i")
    return message.serialise(serial, fds=descriptors), descriptors
