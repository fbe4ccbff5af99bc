"""Another machine of a test's network: a thread in a network namespace of its own, on the end of a cable."""

import asyncio
import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import trio
from pyroute2 import AsyncIPRoute

_CLONE_NEWNET = 0x40000000
PACKET_TIMEOUT = 0.4
"""Seconds after which a packet without an answer was dropped; in a namespace an answer takes 0.1 ms."""
OPEN, REFUSED, DROPPED = "open", "refused", "dropped"


@dataclass(slots=True)
class Peer:
    """The other machine; its methods run there."""

    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        def enter() -> None:
            if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")

        self.run(enter)

    def run[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function there and wait for its result."""
        return self._thread.submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End the thread, and the namespace with it."""
        self._thread.shutdown()

    async def plug(self, near: str, far: str, addresses: list[str]) -> None:
        """Lay a cable from here, where its end is ``near``, to the other machine, and give that addresses."""
        path = f"/proc/self/task/{self.run(threading.get_native_id)}/ns/net"
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

        async def lay() -> None:
            async with AsyncIPRoute() as opened:
                route: Any = opened
                await route.link("add", ifname=near, kind="veth", peer={"ifname": far})
                [index] = await route.link_lookup(ifname=far)
                await route.link("set", index=index, net_ns_fd=descriptor)

        try:
            await trio.to_thread.run_sync(asyncio.run, lay())
        finally:
            os.close(descriptor)
        self.run(_set_up, far, addresses)

    def connect(self, host: str, port: int, *, source: str = "") -> str:
        """What comes of a TCP connection."""

        def attempt() -> str:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
                client.settimeout(PACKET_TIMEOUT)
                if source:
                    client.bind((source, 0))
                try:
                    client.connect((host, port))
                except TimeoutError:
                    return DROPPED
                except ConnectionRefusedError:
                    return REFUSED
                return OPEN

        return self.run(attempt)

    def ping(self, host: str, *, kind: int = 8, count: int = 1) -> int:
        """The number of answers to ICMP messages of a type, each of a conversation of its own."""

        def attempt() -> int:
            answers = 0
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
                raw.settimeout(PACKET_TIMEOUT)
                raw.connect((host, 0))
                for number in range(count):
                    body = struct.pack(">BBHHH12x", kind, 0, 0, number, 0)
                    raw.send(body[:2] + struct.pack(">H", _checksum(body)) + body[4:])
                try:
                    while answers < count:
                        raw.recv(2048)
                        answers += 1
                except TimeoutError:
                    pass
            return answers

        return self.run(attempt)

    def solicit(self, host: str, *, hop_limit: int = 255, count: int = 1) -> int:
        """The number of answers to neighbour solicitations of ICMPv6."""

        def attempt() -> int:
            answers = 0
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
                raw.settimeout(PACKET_TIMEOUT)
                raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hop_limit)
                body = struct.pack(">BBHI", 135, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, host)
                for _ in range(count):
                    raw.sendto(body, (host, 0))
                try:
                    while answers < count:
                        answers += raw.recv(2048)[0] == 136
                except TimeoutError:
                    pass
            return answers

        return self.run(attempt)


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _set_up(name: str, addresses: list[str]) -> None:
    async def configure() -> None:
        async with AsyncIPRoute() as opened:
            route: Any = opened
            [index] = await route.link_lookup(ifname=name)
            for text in addresses:
                address, _, length = text.partition("/")
                flags = {"flags": 0x02} if ":" in address else {}  # IFA_F_NODAD
                await route.addr("add", index=index, address=address, prefixlen=int(length), **flags)
            for link in (index, 1):
                await route.link("set", index=link, state="up")

    asyncio.run(configure())
