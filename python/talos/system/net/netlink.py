"""Netlink messages of families that pyroute2 has in part only: nftables' and ethtool's.

Calls block until the kernel has answered, which it does before it does anything else; a driver that works
for longer is called from a thread.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Self

# <linux/netlink.h>, <linux/genetlink.h>
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLM_F_CREATE, NLM_F_APPEND = 0x1, 0x4, 0x300, 0x400, 0x800
NETLINK_NETFILTER, NETLINK_GENERIC = 12, 16
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLMSGERR_ATTR_MSG = 1
_NLM_F_CAPPED, _NLM_F_ACK_TLVS = 0x100, 0x200
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 270, 10, 11
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_NESTED = 0x8000
_TYPE_MASK = 0x3FFF
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_GENERIC_HEADER = struct.Struct("=BBxx")
_BUFFER_BYTES = 16 << 20
_RECEIVE_BYTES = 1 << 16
_KERNEL = 0
"""The number of the kernel among those that send messages; programs have others, netlink(7)."""
_ANSWER_TIMEOUT = 30.0  # seconds
"""The kernel answers at once; a driver may reset its hardware first. A lost answer ends as an error."""
_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
_CTRL_ATTR_MCAST_GROUPS, _CTRL_ATTR_MCAST_GRP_NAME, _CTRL_ATTR_MCAST_GRP_ID = 7, 1, 2


def make_attribute(kind: int, value: bytes | int | str) -> bytes:
    """An attribute with padding; a number is a u32 in the machine's order, a text ends with a zero."""
    if isinstance(value, int):
        value = struct.pack("=I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    size = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(size, kind) + value + bytes(-size % 4)


def make_nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute that consists of others."""
    return make_attribute(kind | _NESTED, b"".join(attributes))


def make_generic(command: int, *attributes: bytes, version: int = 1) -> bytes:
    """The body of a message of generic netlink."""
    return _GENERIC_HEADER.pack(command, version) + b"".join(attributes)


def parse_attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by their kind; of several the last one."""
    return dict(iterate_attributes(data))


def iterate_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes in their order; what is malformed ends it."""
    place = 0
    while place + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, place)
        if size < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, data[place + _ATTRIBUTE.size : place + size]
        place += size + -size % 4


class Netlink:
    """One socket of a netlink protocol. Calls raise OSError with the kernel's number and text."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.settimeout(_ANSWER_TIMEOUT)
        self._socket.bind((0, 0))
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, number: int, body: bytes, flags: int = NLM_F_ACK) -> list[bytes]:
        """Send a message; the bodies of the kernel's answers."""
        self._sequence += 1
        self._socket.send(_format(number, NLM_F_REQUEST | flags, self._sequence, body))
        bodies: list[bytes] = []
        while True:
            for sequence, kind, flags_, answer in _split(receive(self._socket, _RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                if kind in {_NLMSG_ERROR, _NLMSG_DONE}:
                    _check(answer, flags_, kind)
                    return bodies
                bodies.append(answer)

    def send_batch(self, messages: Sequence[tuple[int, int, bytes]]) -> None:
        """Send messages (number, flags, body) as one: the kernel applies all of them or none."""
        for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        parts: list[bytes] = []
        awaited: set[int] = set()
        for number, flags, body in messages:
            self._sequence += 1
            if flags & NLM_F_ACK:
                awaited.add(self._sequence)
            parts.append(_format(number, NLM_F_REQUEST | flags, self._sequence, body))
        self._socket.send(b"".join(parts))
        failure: OSError | None = None
        while awaited:
            for sequence, kind, flags, answer in _split(receive(self._socket, _RECEIVE_BYTES)):
                if kind == _NLMSG_ERROR:
                    awaited.discard(sequence)
                    try:
                        _check(answer, flags, kind)
                    except OSError as error:
                        failure = failure or error
            if failure is not None:
                # What follows a refused message may stay without an answer.
                raise failure

    def find_family(self, name: str) -> int:
        """The number of a family of generic netlink; OSError when the kernel does not have it."""
        return int.from_bytes(self._describe_family(name)[_CTRL_ATTR_FAMILY_ID], "little")

    def find_group(self, family: str, name: str) -> int:
        """The number of a family's group, whose members get its events; OSError when there is none."""
        groups = self._describe_family(family).get(_CTRL_ATTR_MCAST_GROUPS, b"")
        for _, group in iterate_attributes(groups):
            parts = parse_attributes(group)
            if parts.get(_CTRL_ATTR_MCAST_GRP_NAME, b"").rstrip(b"\0") == name.encode():
                return int.from_bytes(parts[_CTRL_ATTR_MCAST_GRP_ID], "little")
        raise OSError(errno.ENOENT, f"{family} has no group {name}")

    def _describe_family(self, name: str) -> dict[int, bytes]:
        body = make_generic(_CTRL_CMD_GETFAMILY, make_attribute(_CTRL_ATTR_FAMILY_NAME, name))
        [answer] = self.request(_GENL_ID_CTRL, body)
        return parse_attributes(strip_generic(answer))


def receive(source: socket.socket, size: int) -> bytes:
    """The next datagram of the kernel's; OSError as of the socket.

    Programs with CAP_NET_ADMIN in this network, such as a pod's, can send to it, too: that is dropped.
    """
    while True:
        data, sender = source.recvfrom(size)
        if sender[0] == _KERNEL:
            return data


def split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a datagram: number and body."""
    for _, number, _, body in _split(data):
        yield number, body


def strip_generic(body: bytes) -> bytes:
    """The attributes of an answer of generic netlink."""
    return body[_GENERIC_HEADER.size :]


def _format(number: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), number, flags, sequence, 0) + body + bytes(-len(body) % 4)


def _split(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    place = 0
    while place + _HEADER.size <= len(data):
        size, kind, flags, sequence, _ = _HEADER.unpack_from(data, place)
        if size < _HEADER.size:
            return
        yield sequence, kind, flags, data[place + _HEADER.size : place + size]
        place += size + -size % 4


def _check(answer: bytes, flags: int, kind: int) -> None:
    [code] = struct.unpack_from("=i", answer)
    if code >= 0:
        return
    text = ""
    if flags & _NLM_F_ACK_TLVS:
        # Behind the error's number: the request's header, and its body unless it is capped.
        place = 4
        if kind == _NLMSG_ERROR:
            [size] = struct.unpack_from("=I", answer, place)
            place += _HEADER.size if flags & _NLM_F_CAPPED else size + -size % 4
        text = parse_attributes(answer[place:]).get(_NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()
    raise OSError(-code, ": ".join(filter(None, (os.strerror(-code), text))))
