"""Interfaces by the ioctls that need no netlink: their names and their first IPv4 address."""

import fcntl
import socket
import struct
from ipaddress import IPv4Address, IPv4Interface

# <linux/sockios.h>
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_SIOCSIFNAME = 0x8923
_NAME_BYTES = 16
_ADDRESS = slice(20, 24)
"""Of a ``struct ifreq``: behind the name, the family and the port."""


def rename_link(old: str, new: str) -> str:
    """Give an interface another name, which works while it is down; what failed. Needs CAP_NET_ADMIN."""
    request = struct.pack(f"{_NAME_BYTES}s{_NAME_BYTES}s8x", old.encode(), new.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        try:
            fcntl.ioctl(control, _SIOCSIFNAME, request)
        except OSError as error:
            return error.strerror or str(error)
    return ""


def find_address(interface: str) -> IPv4Interface:
    """An interface's IPv4 address and prefix; OSError when it has none."""
    request = struct.pack("256s", interface.encode()[: _NAME_BYTES - 1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        address = fcntl.ioctl(control, _SIOCGIFADDR, request)[_ADDRESS]
        mask = fcntl.ioctl(control, _SIOCGIFNETMASK, request)[_ADDRESS]
    return IPv4Interface(f"{IPv4Address(address)}/{IPv4Address(mask)}")
