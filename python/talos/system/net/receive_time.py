"""When the kernel received a packet: a busy process takes it later."""

import socket
import struct
import time
from collections.abc import Iterable

# <asm-generic/socket.h>: the option, and the ancillary data that it brings; Python has no name for it.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
"""Seconds and nanoseconds of the system's clock."""
_NANOSECONDS = 10**9


def keep_receive_times(opened: socket.socket) -> None:
    """Have the time of each packet's arrival, and of each error's, among the ancillary data."""
    opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def find_age(control: Iterable[tuple[int, int, bytes]]) -> float:
    """Seconds since a packet has arrived; 0 without a time, or when the clock was set back in between."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return max(0, time.time_ns() - seconds * _NANOSECONDS - nanoseconds) / _NANOSECONDS
    return 0.0
