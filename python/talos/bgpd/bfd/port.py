"""BFD on a link: UDP port 3784, packets with a hop limit of 255 only (RFC 5881)."""

import random
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import trio

from talos.bgpd.bfd.packet import PACKET_BYTES, parse_packet
from talos.bgpd.bfd.session import BfdSession, Timers
from talos.bgpd.wire.scoped_address import ScopedAddress, parse_scoped_address
from talos.system.logging import Log
from talos.system.net.hop_limit import receive_hop_limits, set_hop_limit
from talos.system.wakeup import Signal, Wakeup

PORT = 3784
SOURCE_PORTS = (49152, 65535)
HOP_LIMIT = 255
"""A router in between would have lowered it."""
_ANCILLARY_BYTES = socket.CMSG_SPACE(4)
BIND_RETRY = 30.0
"""Seconds before a port that is in use is tried again."""
BIND_TRIES = 16


@dataclass(slots=True)
class _Running:
    session: BfdSession
    wakeup: Wakeup = field(default_factory=Wakeup)


class BfdPort:
    """The sessions of all neighbours; the port is open while there is one."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[ScopedAddress, _Running] = {}
        self._changed = Signal()

    async def serve(self) -> None:
        """Receive for all sessions until cancelled."""
        while True:
            while not self._running:
                await self._changed.wait()
            async with trio.open_nursery() as nursery:
                for family in (socket.AF_INET, socket.AF_INET6):
                    nursery.start_soon(self._listen, family)
                while self._running:
                    await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _listen(self, family: socket.AddressFamily) -> None:
        while True:
            try:
                receiver = await _open_receiver(family)
            except OSError as error:
                self._log.once(f"BFD: port {PORT} can't be opened: {error.strerror}")
                await trio.sleep(BIND_RETRY)
                continue
            with receiver:
                await self._receive(receiver)

    async def _receive(self, receiver: trio.socket.SocketType) -> None:
        while True:
            data, ancillary, _, sender = await receiver.recvmsg(PACKET_BYTES, _ANCILLARY_BYTES)
            running = self._running.get(parse_scoped_address(cast("tuple[Any, ...]", sender)))
            if running is None or not any(
                int.from_bytes(item, "little") == HOP_LIMIT for *_, item in ancillary
            ):
                continue
            if packet := parse_packet(data):
                running.session.receive(packet, trio.current_time())
                running.wakeup.set()

    async def run(
        self, timers: Timers, local: ScopedAddress, peer: ScopedAddress, notify: Callable[[BfdSession], None]
    ) -> None:
        """Keep a session with a peer until cancelled; ``notify`` gets it when its state changes. OSError."""
        discriminator = random.randint(1, 0xFFFFFFFF)  # noqa: S311 - no secret
        running = _Running(BfdSession(timers, discriminator, trio.current_time()))
        with await _open_sender(local) as sender, self._registered(peer, running):
            await self._keep(running, sender, peer, notify)

    @contextmanager
    def _registered(self, peer: ScopedAddress, running: _Running) -> Generator[None]:
        self._running[peer] = running
        self._changed.notify()
        try:
            yield
        finally:
            if self._running.get(peer) is running:
                del self._running[peer]
            self._changed.notify()

    async def _keep(
        self,
        running: _Running,
        sender: trio.socket.SocketType,
        peer: ScopedAddress,
        notify: Callable[[BfdSession], None],
    ) -> None:
        session = running.session
        notify(session)
        shown = session.state
        while True:
            if packet := session.tick(trio.current_time()):
                # A link that is down is noticed by the packets that don't come.
                with suppress(OSError):
                    await sender.sendto(packet, peer.make_address(PORT))
            if session.state is not shown:
                shown = session.state
                notify(session)
            with trio.move_on_at(session.deadline):
                await running.wakeup.wait()


async def _open_receiver(family: socket.AddressFamily) -> trio.socket.SocketType:
    """OSError."""
    opened = trio.socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        receive_hop_limits(opened)
        await opened.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", PORT))  # noqa: S104 - peers are chosen
    except BaseException:
        opened.close()
        raise
    return opened


async def _open_sender(local: ScopedAddress) -> trio.socket.SocketType:
    """A socket on any of the source ports; OSError when those tried are all in use."""
    opened = trio.socket.socket(local.family, socket.SOCK_DGRAM)
    try:
        set_hop_limit(opened, HOP_LIMIT)
        for tries in range(1, BIND_TRIES + 1):
            try:
                await opened.bind(local.make_address(random.randint(*SOURCE_PORTS)))  # noqa: S311 - no secret
                break
            except OSError:
                if tries == BIND_TRIES:
                    raise
    except BaseException:
        opened.close()
        raise
    return opened
