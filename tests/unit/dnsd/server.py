"""A DNS server of the test's: it answers what a function makes of a question, on UDP and TCP."""

import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address

import trio

from talos.dnsd.message import IN, SOA, A, encode_name
from talos.dnsd.upstream import Server, Upstream

type Answer = Callable[[bytes], Sequence[bytes]]
"""From a query to the datagrams that are sent back; the first one answers on TCP."""
LOCALHOST = ip_address("127.0.0.1")


def make_question(name: str, kind: int = A, number: int = 7, *, edns: bool = False) -> bytes:
    """A client's query."""
    head = struct.pack("!6H", number, 0x0100, 1, 0, 0, int(edns))
    options = b"\0" + struct.pack("!HHIH", 41, 4096, 0, 0) if edns else b""
    return head + encode_name(name) + struct.pack("!HH", kind, IN) + options


def make_record(data: bytes, *, kind: int = A, seconds: int = 60, name: bytes = b"\xc0\x0c") -> bytes:
    """A record about the name of the question."""
    return name + struct.pack("!HHIH", kind, IN, seconds, len(data)) + data


def make_reply(
    query: bytes,
    *records: bytes,
    code: int = 0,
    flags: int = 0,
    authorities: Sequence[bytes] = (),
    question: bytes | None = None,
) -> bytes:
    """A server's reply, with EDNS as most send it."""
    section = query[12 : query.index(b"\0", 12) + 5] if question is None else question
    head = struct.pack(
        "!H5H", int.from_bytes(query[:2]), 0x8180 | code | flags, 1, len(records), len(authorities), 1
    )
    return (
        head
        + section
        + b"".join(records)
        + b"".join(authorities)
        + b"\0"
        + struct.pack("!HHIH", 41, 1232, 0, 0)
    )


def make_authority(seconds: int, minimum: int) -> bytes:
    """A start of authority, which bounds how long a denial holds."""
    return make_record(
        b"\0\0" + struct.pack("!5I", 1, 2, 3, 4, minimum), kind=SOA, seconds=seconds, name=b"\0"
    )


@asynccontextmanager
async def serving(answer: Answer, queries: list[bytes] | None = None) -> AsyncGenerator[Upstream]:
    """The server, as the resolver's upstream; ``queries`` collects what it gets."""
    [tcp] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = tcp.socket.getsockname()[1]
    with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as udp:
        await udp.bind(("127.0.0.1", port))

        async def serve_udp() -> None:
            while True:
                query, client = await udp.recvfrom(65535)
                if queries is not None:
                    queries.append(query)
                for datagram in answer(query):
                    await udp.sendto(datagram, client)

        async def serve_stream(stream: trio.SocketStream) -> None:
            async with stream:
                query = (await stream.receive_some(65535))[2:]
                for reply in answer(query)[:1]:
                    await stream.send_all(len(reply).to_bytes(2) + reply)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_udp)
            nursery.start_soon(partial(trio.serve_listeners, serve_stream, [tcp]))
            yield Upstream(Server(address=LOCALHOST), port=port)
            nursery.cancel_scope.cancel()
