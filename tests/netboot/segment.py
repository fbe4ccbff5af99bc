"""A network of its own: a namespace with taps. The kernel removes it with the last who is in it."""

import fcntl
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

TAPS = ("tap0", "tap1")
# linux/if_tun.h
TUNSETIFF = 0x400454CA
TUNSETPERSIST = 0x400454CB
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
# linux/sockios.h, linux/if.h
SIOCSIFFLAGS = 0x8914
SIOCSIFADDR = 0x8916
SIOCSIFNETMASK = 0x891C
IFF_UP = 1
SETTINGS = {"arp_ignore": "1", "rp_filter": "0"}
"""Two taps are two hosts of one network: each answers for itself, and takes what is for it."""


@contextmanager
def restored(kind: str, flag: int) -> Generator[None]:
    """Come back to this thread's own namespace of a kind."""
    own = os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        os.setns(own, flag)
        os.close(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A network that nothing else is in. What is started inside :meth:`inside` belongs to it."""

    addresses: tuple[IPv4Interface, ...]
    """Of the taps, in the namespace."""
    handle: int

    @contextmanager
    def inside(self) -> Generator[None]:
        """Be in the network."""
        with restored("net", os.CLONE_NEWNET):
            os.setns(self.handle, os.CLONE_NEWNET)
            yield

    def reaches(self, address: IPv4Address, port: int, seconds: float = 5) -> bool:
        """Whether a server in the network accepts connections there."""
        with self.inside(), socket.socket() as probe:
            probe.settimeout(seconds)
            return probe.connect_ex((str(address), port)) == 0


@contextmanager
def family() -> Generator[None]:
    """What is started first in here is PID 1 of its own: all that it starts ends with it, however it ends."""
    with restored("pid_for_children", os.CLONE_NEWPID):
        os.unshare(os.CLONE_NEWPID)
        yield


@contextmanager
def make_segment(*addresses: str) -> Generator[Segment]:
    """Make a network with a tap for each address (``10.0.0.1/24``); it needs root."""
    interfaces = tuple(map(IPv4Interface, addresses))
    with restored("net", os.CLONE_NEWNET):
        os.unshare(os.CLONE_NEWNET)
        handle = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        for name, value in SETTINGS.items():
            Path("/proc/sys/net/ipv4/conf/all", name).write_text(value, encoding="ascii")
        for tap, address in zip(TAPS, interfaces, strict=False):
            _make_tap(tap, address)
    try:
        yield Segment(addresses=interfaces, handle=handle)
    finally:
        os.close(handle)


def _make_tap(tap: str, address: IPv4Interface) -> None:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", tap.encode(), IFF_TAP | IFF_NO_PI))
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
    finally:
        os.close(tun)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, SIOCSIFADDR, _request(tap, address.ip))
        fcntl.ioctl(door, SIOCSIFNETMASK, _request(tap, address.netmask))
        fcntl.ioctl(door, SIOCSIFFLAGS, struct.pack("16sH22x", tap.encode(), IFF_UP))


def _request(tap: str, address: IPv4Address) -> bytes:
    """A ``struct ifreq`` with an IPv4 address."""
    return struct.pack("16sHH4s16x", tap.encode(), socket.AF_INET, 0, address.packed)
