"""A client whose server in the network reads slowly, or is older than it may be."""

# The conditions that are waited for are the client's own, which has no events for them.
# ruff: noqa: ASYNC110

import asyncio
import socket
import ssl

import pytest

from talos.api.rpc import Code, RpcError
from talos.client.target import Target
from talos.client.tls import make_context as make_talosctl_context
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.frames import (
    END_HEADERS,
    END_STREAM,
    HEAD,
    PREFACE,
    Bounds,
    Kind,
    make_frame,
    make_settings,
)
from talos.rpc.http2.headers import encode_headers
from talos.rpc.port.remote import ClientTls, RemoteChannel, RemoteServer, make_client_context
from talos.rpc.port.tls import TlsSettings, make_context
from talos.rpc.protocol import OK_TRAILERS, PREFIX, REPLY_HEADERS

WINDOW = 4 << 20


class SlowServer:
    """Allows a large message at once, as apid does, and reads it late."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.received = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(make_settings(Bounds(stream_window=WINDOW, connection_window=WINDOW)))
        await reader.readexactly(len(PREFACE))
        await self.may_read.wait()
        flags = 0
        while not flags & END_STREAM:
            high, low, kind, flags, _ = HEAD.unpack(await reader.readexactly(HEAD.size))
            size = len(await reader.readexactly(high << 8 | low))
            if kind == Kind.DATA:
                self.received += size
            else:
                flags = 0
        block = encode_headers((*REPLY_HEADERS, *OK_TRAILERS))
        writer.write(make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, block))
        await reader.read()
        writer.close()
        await writer.wait_closed()


async def send_to(slow: SlowServer, message: bytes) -> int:
    ca = CertificateAuthority.generate(KeyType.P256)
    pair = ca.issue(common_name="node", ips=["127.0.0.1"], usages=Usage.SERVER)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    context = make_context(TlsSettings(certificate=pair.crt, key=pair.key))
    client: ssl.SSLContext = make_client_context(ClientTls(authorities=(ca.crt,)))
    async with await asyncio.start_server(slow.serve, sock=listening, ssl=context):
        port = int(listening.getsockname()[1])
        channel = RemoteChannel(RemoteServer(host="127.0.0.1", port=port, context=client), ASYNCIO)
        call = await channel.begin("/test.Echo/Unary", (), 60)
        # The settings that open the stream's window have arrived.
        while call.send_window < WINDOW:
            await asyncio.sleep(0)
        assert call.connection.transport is not None
        # The kernel takes little of it, as on a connection that is new to a network with long ways.
        connected: socket.socket = call.connection.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sending = asyncio.create_task(call.send(message, last=True))
        while not (call.connection.paused or call.connection.closed):
            await asyncio.sleep(0)
        slow.may_read.set()
        await sending
        status = await call.end()
        channel.close()
        return status.code


def test_a_large_message_waits_for_a_slow_server() -> None:
    async def main() -> None:
        slow = SlowServer()
        assert await send_to(slow, bytes(2 << 20)) == Code.OK
        assert slow.received == PREFIX + (2 << 20)

    asyncio.run(main())


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake in memory; ssl.SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="node"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    left = set(ends)
    for end in ends * 3:
        if end in left:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.discard(end)
    assert not left


def test_a_server_without_tls_1_3_is_refused() -> None:
    """Discovery, other nodes, and talosctl's side."""
    ca = CertificateAuthority.generate(KeyType.P256)
    pair = ca.issue(common_name="node", dns_names=["node"], usages=Usage.SERVER)
    server = make_context(TlsSettings(certificate=pair.crt, key=pair.key))
    server.minimum_version = ssl.TLSVersion.TLSv1_2
    clients = (
        make_client_context(ClientTls(authorities=(ca.crt,))),
        make_talosctl_context(Target(endpoints=(), nodes=(), ca=ca.crt)),
        make_talosctl_context(Target(endpoints=(), nodes=(), insecure=True)),
    )
    for client in clients:
        shake_hands(client, server)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    for client in clients:
        with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
            shake_hands(client, server)


@pytest.mark.parametrize(
    ("host", "reason"),
    [("127.0.0.1", "connection|the server"), ("a..b", "label"), ("a" * 64, "label")],
)
def test_why_a_server_is_not_reached_is_in_the_error(host: str, reason: str) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()
        await writer.wait_closed()

    async def call() -> None:
        server = await asyncio.start_server(close, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            channel = RemoteChannel(RemoteServer(host=host, port=port, context=None), ASYNCIO)
            try:
                with pytest.raises(RpcError, match=reason) as error:
                    await (await channel.begin("/a.B/C", (), 5.0)).receive()
                assert "None" not in str(error.value)
            finally:
                channel.close()

    asyncio.run(call())
