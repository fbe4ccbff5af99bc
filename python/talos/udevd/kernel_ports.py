"""The doors to the kernel that need more than files: names of interfaces, ATA's IDENTIFY."""

import fcntl
import os
import socket
import struct
from pathlib import Path

from talos.udevd.disk_identity import IDENTIFY_BYTES

# <linux/hdreg.h>, <linux/sockios.h>
_HDIO_GET_IDENTITY = 0x030D
_SIOCSIFNAME = 0x8923
_NAME_BYTES = 16


def identify(node: str, dev: Path = Path("/dev")) -> bytes:
    """What an ATA disk or drive said of itself when the kernel found it; empty when it isn't one."""
    answer = bytearray(IDENTIFY_BYTES)
    try:
        descriptor = os.open(dev / node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        fcntl.ioctl(descriptor, _HDIO_GET_IDENTITY, answer)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return bytes(answer)


def rename_link(old: str, new: str) -> str:
    """Give an interface another name, which works while it is down. Needs CAP_NET_ADMIN."""
    request = struct.pack(f"{_NAME_BYTES}s{_NAME_BYTES}s8x", old.encode(), new.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        try:
            fcntl.ioctl(control, _SIOCSIFNAME, request)
        except OSError as error:
            return error.strerror or str(error)
    return ""
