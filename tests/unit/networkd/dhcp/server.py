"""A DHCP server without a network: it answers what a client puts on the twin of its wire."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from typing import Any

import trio
from pyroute2.dhcp.dhcp4msg import dhcp4msg

from talos.networkd.dhcp.wire import Peer, Wire

SERVER = Peer(IPv4Address("10.0.2.2"), bytes((0x52, 0x55, 10, 0, 2, 2)))
OPTIONS: dict[str, Any] = {
    "subnet_mask": "255.255.255.0",
    "router": ["10.0.2.2"],
    "name_server": ["10.0.2.3"],
    "server_id": "10.0.2.2",
    "lease_time": 3600,
}


class Server:
    """Offers one address with some options. ``silent``, ``refusing`` and ``raw`` make it a bad one."""

    def __init__(self, address: str = "10.0.2.15", **options: Any) -> None:
        self.address = address
        self.options = {**OPTIONS, **options}
        self.silent = False
        self.refusing = False
        self.raw: bytes | None = None
        self.owners: dict[IPv4Address, bytes] = {}
        self.received: list[tuple[str, dict[str, Any], Peer | None]] = []
        self._send, self._receive = trio.open_memory_channel[tuple[bytes, Peer]](100)

    async def send(
        self, message: bytes, *, source: IPv4Address | None = None, to: Peer | None = None
    ) -> None:
        """Receive a client's message, and answer at once."""
        decoded: Any = dhcp4msg(buf=message).decode()
        kind = decoded["options"]["message_type"].name
        self.received.append((kind, dict(decoded["options"]), to))
        if self.silent:
            return
        if self.raw is not None:
            self._send.send_nowait((message[:0] + b"\2" + message[1:236] + self.raw, SERVER))
            return
        if kind == "DECLINE":
            self.address = "10.0.2.16"
            return
        answer = {"DISCOVER": 2, "REQUEST": 6 if self.refusing else 5}[kind]
        reply: Any = dhcp4msg(
            {
                "op": 2,
                "xid": decoded["xid"],
                "chaddr": decoded["chaddr"],
                "yiaddr": "0.0.0.0" if answer == 6 else self.address,
                "options": {"message_type": answer, **self.options},
            }
        )
        self._send.send_nowait((bytes(reply.encode().buf), SERVER))

    async def find_owner(self, address: IPv4Address, hardware_address: bytes) -> bytes | None:
        """Another machine, if there is one."""
        assert hardware_address
        return self.owners.get(address)

    async def receive(self) -> tuple[bytes, Peer]:
        """The client's side."""
        return await self._receive.receive()

    @asynccontextmanager
    async def open(self, link: str) -> AsyncGenerator[Wire]:
        """As the kernel's wire is opened."""
        assert link
        yield self
