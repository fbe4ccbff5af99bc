"""The sockets on which questions come: UDP and TCP on one address."""

import errno
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

import trio

from talos.dnsd.message import (
    FORMAT_ERROR,
    HEADER,
    MAX_QUERY,
    MAX_REPLY,
    MalformedError,
    Query,
    make_header_error,
    parse_query,
)
from talos.dnsd.resolver import Resolver
from talos.system.net.packets import attach_filter, find_link_of_stream, make_link_filter

MAX_WAITING = 1024
"""Questions over UDP that wait for a server; further ones are dropped, and their clients repeat them."""
MAX_STREAMS = 64
STREAM_TIMEOUT = 10.0
"""Seconds in which a client on a connection has to send the next query, and to take its answer."""
BURST = 64
"""Datagrams that are handled before other tasks have their turn."""
_FREEBIND = {4: (socket.IPPROTO_IP, 15), 6: (socket.IPPROTO_IPV6, 78)}
"""IP_FREEBIND: the address may come to the link after the socket. <linux/in.h>, <linux/in6.h>"""
_BACKLOG = 128

type Address = IPv4Address | IPv6Address


class Listener:
    """Both sockets of one address. OSError when the address is in use.

    ``refused`` are links as :meth:`refuse` takes them.
    """

    def __init__(self, resolver: Resolver, address: Address, port: int, refused: Sequence[int] = ()) -> None:
        self._resolver = resolver
        self._refused: frozenset[int] = frozenset()
        self._waiting = 0
        self._streams = 0
        self._udp = _open(socket.SOCK_DGRAM, address, port)
        try:
            self.refuse(refused)
            self._tcp = _open(socket.SOCK_STREAM, address, self._udp.getsockname()[1])
            self._tcp.listen(_BACKLOG)
        except BaseException:
            self._udp.close()
            raise
        self.port: int = self._udp.getsockname()[1]

    def refuse(self, links: Sequence[int]) -> None:
        """Don't answer what comes in on these links, by their indexes.

        The kernel takes packets for any of its addresses on any of its links. It drops datagrams itself.
        A connection is closed before anything is read: filters of TCP need CAP_NET_ADMIN (net/core/sock.c).
        """
        attach_filter(self._udp, make_link_filter(links))
        self._refused = frozenset(links)

    async def serve(self) -> None:
        """Answer until cancelled; then the sockets are closed."""
        with self._udp, self._tcp:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve_tcp, nursery)
                await self._serve_udp(nursery)

    async def _serve_udp(self, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._udp)
            for _ in range(BURST):
                try:
                    data, client = self._udp.recvfrom(MAX_QUERY + 1)
                except BlockingIOError:
                    break
                except OSError:
                    # An ICMP error about an earlier answer.
                    continue
                self._handle(data, client, nursery)
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _handle(self, data: bytes, client: object, nursery: trio.Nursery) -> None:
        try:
            query = parse_query(data)
        except MalformedError:
            if error := make_header_error(data, FORMAT_ERROR):
                self._send(error, client)
            return
        answer = self._resolver.find(query, query.udp_size)
        if answer is not None:
            self._send(answer, client)
        elif self._waiting < MAX_WAITING:
            self._waiting += 1
            nursery.start_soon(self._resolve, query, client)

    async def _resolve(self, query: Query, client: object) -> None:
        try:
            self._send(await self._resolver.resolve(query, query.udp_size), client)
        finally:
            self._waiting -= 1

    def _send(self, answer: bytes, client: object) -> None:
        # The client is gone, or does not read; it repeats the query.
        with suppress(OSError):
            self._udp.sendto(answer, client)  # pyright: ignore[reportArgumentType] - as recvfrom returned it

    async def _serve_tcp(self, nursery: trio.Nursery) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._tcp))
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    raise
                await trio.sleep(1)
                continue
            if self._streams >= MAX_STREAMS or self._is_refused(stream):
                await trio.aclose_forcefully(stream)
                continue
            self._streams += 1
            nursery.start_soon(self._serve_stream, stream)

    def _is_refused(self, stream: trio.SocketStream) -> bool:
        if not self._refused:
            return False
        try:
            return find_link_of_stream(stream.socket) in self._refused
        except OSError:
            return True

    async def _serve_stream(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                data = b""
                while True:
                    with trio.fail_after(STREAM_TIMEOUT):
                        size, data = await _read_query(stream, data)
                    answer = await self._answer(data[:size])
                    data = data[size:]
                    with trio.fail_after(STREAM_TIMEOUT):
                        await stream.send_all(len(answer).to_bytes(2) + answer)
        except (EOFError, trio.BrokenResourceError, trio.TooSlowError, MalformedError):
            pass
        finally:
            self._streams -= 1

    async def _answer(self, data: bytes) -> bytes:
        try:
            query = parse_query(data)
        except MalformedError:
            error = make_header_error(data, FORMAT_ERROR)
            if not error:
                raise
            return error
        return await self._resolver.resolve(query, MAX_REPLY)


async def _read_query(stream: trio.SocketStream, data: bytes) -> tuple[int, bytes]:
    """The size of the next query, and what was read from its first byte on."""
    size = -1
    while size < 0 or len(data) < size:
        if size < 0 and len(data) >= 2:
            size, data = int.from_bytes(data[:2]), data[2:]
            if not HEADER.size <= size <= MAX_QUERY:
                raise MalformedError(f"{size} bytes")
            continue
        received = await stream.receive_some(MAX_QUERY)
        if not received:
            raise EOFError
        data += received
    return size, data


def _open(kind: int, address: Address, port: int) -> socket.socket:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        set_option: Callable[[int, int, int], None] = opened.setsockopt
        if kind == socket.SOCK_STREAM:
            set_option(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            set_option(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        set_option(*_FREEBIND[address.version], 1)
        opened.bind((str(address), port))
    except BaseException:
        opened.close()
        raise
    return opened
