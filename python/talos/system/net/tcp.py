"""The kernel's figures of a TCP connection, and how long it waits on a silent one."""

import fcntl
import socket
import struct
from typing import Protocol

TCP_KEEPIDLE: int = getattr(socket, "TCP_KEEPIDLE", 0x10)  # macOS: TCP_KEEPALIVE of netinet/tcp.h
_SIOCOUTQ = 0x5411  # linux/sockios.h: bytes that the other side has not acknowledged, TCP's end included


def find_unacknowledged(fd: int) -> int:
    """Bytes written to a connection that the other side's kernel has not acknowledged; also of a broken one.

    OSError.
    """
    (count,) = struct.unpack("i", fcntl.ioctl(fd, _SIOCOUTQ, bytes(4)))
    return count


class _Socket(Protocol):
    """A socket, trio's or the standard library's."""

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        """Set an option."""
        ...


def bound_waiting(connection: _Socket, *, timeout: float, send_buffer: int) -> None:
    """Have the kernel hold at most so many bytes, and break when nothing is acknowledged for so long.

    ``timeout`` is in seconds; a connection without traffic is probed as often.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(timeout)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(timeout / 3)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeout * 1000))
