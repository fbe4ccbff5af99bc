"""Servers that are queried over TLS and HTTPS."""

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.harness.tls import make_server_tls
from tests.unit.dnsd.server import LOCALHOST, make_question, make_record, make_reply

from talos.dnsd.message import MAX_REPLY, MalformedError, parse_query
from talos.dnsd.upstream import Server, Transport, Upstream, UpstreamError, parse_http_head
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

ADDRESS = bytes([192, 0, 2, 1])
NAME = "dns.example"
QUERY = parse_query(make_question("a.example"))

type Exchange = Callable[[bytes], bytes]
"""From what a client sent to what it gets."""


def answer_tls(data: bytes) -> bytes:
    reply = make_reply(data[2:], make_record(ADDRESS))
    return len(reply).to_bytes(2) + reply


def answer_https(data: bytes) -> bytes:
    head, _, query = data.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /dns-query HTTP/1.1\r\nHost: dns.example\r\n")
    reply = make_reply(query, make_record(ADDRESS))
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX: y\r\n\r\n" % len(reply) + reply


def refuse_https(_: bytes) -> bytes:
    return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def flood_https(_: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000


@asynccontextmanager
async def serving(
    folder: Path, transport: Transport, exchange: Exchange, *, name: str = NAME, maximum: int = 100
) -> AsyncGenerator[tuple[Upstream, list[int]]]:
    """A server that closes each connection after ``most`` questions; yields its connections, too."""
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["dns"])
    server = authority.issue(dns_names=[name], usages=Usage.SERVER)
    context = make_server_tls(folder, server)
    connections: list[int] = []

    async def handle(plain: trio.SocketStream) -> None:
        connections.append(0)
        stream = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        try:
            for _ in range(maximum):
                data = await stream.receive_some(65535)
                if not data:
                    break
                await stream.send_all(exchange(bytes(data)))
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        upstream = Upstream(
            Server(address=LOCALHOST, transport=transport, name=NAME),
            port=port,
            make_context=lambda: ssl.create_default_context(cadata=authority.crt.decode()),
        )
        yield upstream, connections
        await upstream.close()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("transport", "exchange"),
    [(Transport.TLS, answer_tls), (Transport.HTTPS, answer_https)],
    ids=["DoT", "DoH"],
)
async def test_an_answer_comes_over_a_connection_that_is_kept(
    tmp_path: Path, transport: Transport, exchange: Exchange
) -> None:
    async with serving(tmp_path, transport, exchange) as (upstream, connections):
        for _ in range(3):
            assert (await upstream.query(QUERY)).data.endswith(ADDRESS)
        assert len(connections) == 1


async def test_a_connection_that_the_server_has_closed_is_made_again(tmp_path: Path) -> None:
    async with serving(tmp_path, Transport.TLS, answer_tls, maximum=1) as (upstream, connections):
        for _ in range(3):
            assert (await upstream.query(QUERY)).data.endswith(ADDRESS)
        assert len(connections) == 3


async def test_a_server_whose_authority_comes_later_is_reached_then(tmp_path: Path) -> None:
    async with serving(tmp_path, Transport.TLS, answer_tls) as (upstream, _):
        later, upstream.make_context = upstream.make_context, ssl.create_default_context
        with pytest.raises(UpstreamError, match=r"self-signed|unable to get local issuer"):
            await upstream.query(QUERY)
        upstream.make_context = later
        assert (await upstream.query(QUERY)).data.endswith(ADDRESS)


async def test_a_server_with_another_name_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, Transport.TLS, answer_tls, name="evil.example") as (upstream, _):
        with pytest.raises(UpstreamError, match="mismatch"):
            await upstream.query(QUERY)


@pytest.mark.parametrize("exchange", [refuse_https, flood_https])
async def test_a_reply_over_http_that_is_no_answer_is_an_error(tmp_path: Path, exchange: Exchange) -> None:
    async with serving(tmp_path, Transport.HTTPS, exchange) as (upstream, _):
        with pytest.raises(UpstreamError):
            await upstream.query(QUERY)


@pytest.mark.parametrize("length", ["", "-1", "11", "65536", "00000010099999999", "9" * 5000, "\u00b2"])
def test_the_length_of_a_reply_over_http_is_bounded(length: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}".encode("latin-1")
    with pytest.raises(MalformedError):
        parse_http_head(head)


def test_the_longest_reply_over_http_is_taken() -> None:
    assert parse_http_head(b"HTTP/1.1 200 OK\r\ncontent-length: 65535") == MAX_REPLY
