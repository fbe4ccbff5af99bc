"""Whoever knocks at the port: bad certificates, garbage, floods; and changes of certificates."""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import os
import random
import ssl
import struct
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import grpclib.client
import grpclib.encoding.base
import h2.config
import h2.connection
import h2.events
import hyperframe.frame
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from talos.daemon import http2, refusals
from talos.daemon.grpc_call import GrpcCall
from talos.daemon.raw import OK, Status
from talos.daemon.tls_listener import Limits
from talos.pki.authority import Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType

from .world import READ, RUN, VERSION, Node, Pki, answer_with_name, call, client, node, run

type Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def answer(call: GrpcCall) -> Status:
    return await answer_with_name("a", call)


def client_context(pki: Pki, certificate: PemPair | None, alpn: tuple[str, ...] = ("h2",)) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pki.ca.crt.decode())
    context.set_alpn_protocols(list(alpn))
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as file:
            # OpenSSL knows PKCS#8 under its usual name only.
            file.write(certificate.crt + certificate.key.replace(b"ED25519 PRIVATE", b"PRIVATE"))
            file.flush()
            context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def tls(
    target: Node, context: ssl.SSLContext
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server ends the connection, however it does."""
    try:
        async with asyncio.timeout(10):
            while await reader.read(65536):
                pass
    except (OSError, ssl.SSLError):
        return True
    return True


async def until_refused(target: Node, count: int = 1) -> list[str]:
    async with asyncio.timeout(10):
        while len(target.refusals()) < count:  # noqa: ASYNC110 - the log has no event
            await asyncio.sleep(0.005)
    return target.refusals()


async def knock(target: Node, pki: Pki, certificate: PemPair | None, alpn: tuple[str, ...] = ("h2",)) -> None:
    """Make a TLS connection and have it refused; in TLS 1.3 the client's handshake may seem to succeed."""
    try:
        async with tls(target, client_context(pki, certificate, alpn)) as (reader, _):
            assert await is_closed(reader)
    except (OSError, ssl.SSLError):
        pass


def signed_without_usage(pki: Pki, usages: list[x509.ObjectIdentifier]) -> PemPair:
    """A client certificate with any extended key usage."""
    from talos.pki.keys import key_to_pem

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "os:admin")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(pki.ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(pki.ca.certificate.not_valid_before_utc)
        .not_valid_after(pki.ca.certificate.not_valid_after_utc)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    certificate = builder.sign(pki.ca.key, None)  # pyright: ignore[reportArgumentType]
    from talos.pki.certificate import certificate_to_pem

    return PemPair(certificate_to_pem(certificate), key_to_pem(key))


CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH

BAD_CERTIFICATES: dict[str, tuple[Callable[[Pki], PemPair | None], str]] = {
    "none": (lambda _: None, "the client sent no certificate"),
    "expired": (lambda pki: pki.expired(), "not accepted: certificate has expired"),
    "foreign": (lambda _: Pki().client("os:admin"), "the client certificate is not accepted: "),
    "self-signed": (lambda pki: pki.ca.pem, "the client certificate is not accepted: "),
    "server": (lambda pki: pki.client("os:admin", usages=Usage.SERVER), "unsuitable certificate purpose"),
    "both": (lambda pki: pki.client("os:admin", usages=Usage.BOTH), "is not exactly clientAuth"),
    "no usage": (lambda pki: signed_without_usage(pki, []), "is not exactly clientAuth"),
    "one more usage": (
        lambda pki: signed_without_usage(pki, [CLIENT, ExtendedKeyUsageOID.CODE_SIGNING]),
        "is not exactly clientAuth",
    ),
}


class TestCertificates:
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    @pytest.mark.parametrize("which", BAD_CERTIFICATES.keys() - {"self-signed"})
    def test_bad_ones_are_refused_and_named(
        self, tmp_path: Path, which: str, version: ssl.TLSVersion
    ) -> None:
        async def test() -> None:
            pki = Pki()
            make, reason = BAD_CERTIFICATES[which]
            async with node(tmp_path, pki, answer) as a:
                context = client_context(pki, make(pki))
                context.maximum_version = version
                try:
                    async with tls(a, context) as (reader, _):
                        assert await is_closed(reader)
                except (OSError, ssl.SSLError):
                    pass
                (told,) = await until_refused(a)
                assert reason in told
                record = next(r for r in a.records if r["msg"] == "refused a connection")
                assert record["peer"].startswith("127.0.0.1:")
                assert record["level"] == "warning"
                await still_serves(a, pki)

        run(test)

    @pytest.mark.parametrize("key_type", [KeyType.ED25519, KeyType.P256])
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_ed25519_and_p256_clients_are_served(
        self, tmp_path: Path, key_type: KeyType, version: ssl.TLSVersion
    ) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                context = client_context(pki, pki.client("os:reader", key_type=key_type))
                context.maximum_version = version
                channel = grpclib.client.Channel(a.host, a.port, ssl=context, codec=Raw())
                try:
                    method = grpclib.client.UnaryUnaryMethod(channel, VERSION, bytes, bytes)
                    assert b"a" in await method(b"")
                finally:
                    channel.close()

        run(test)

    def test_tls_1_1_is_refused(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                # A hello of TLS 1.1, which today's OpenSSL no longer sends.
                body = b"\x03\x02" + os.urandom(32) + b"\0" + b"\0\x02\xc0\x09" + b"\x01\0"
                hello = b"\x01" + len(body).to_bytes(3) + body
                await raw(a, b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello)
                (told,) = await until_refused(a)
                assert told == "the client's TLS is older than 1.2"

        run(test)

    def test_without_http2_is_refused(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                await knock(a, pki, pki.client("os:admin"), alpn=("http/1.1",))
                (told,) = await until_refused(a)
                assert "ALPN h2" in told
                await still_serves(a, pki)

        run(test)


class Raw(grpclib.encoding.base.CodecBase):
    __content_subtype__ = "proto"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def encode(self, message: bytes, message_type: type[bytes]) -> bytes:
        return message

    def decode(self, data: bytes, message_type: type[bytes]) -> bytes:
        return data


async def still_serves(target: Node, pki: Pki) -> None:
    async with client(target, pki, pki.client("os:reader")) as channel:
        assert await call(channel)


async def raw(target: Node, data: bytes) -> None:
    """Send bytes without TLS, and have the connection closed."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        writer.write(data)
        assert await is_closed(reader)
    finally:
        writer.transport.abort()


class TestGarbage:
    def test_plain_http(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                await raw(a, b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
                assert await until_refused(a) == ["plain HTTP on a TLS port"]
                await still_serves(a, pki)

        run(test)

    def test_random_bytes(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            chance = random.Random(1)
            async with node(tmp_path, pki, answer) as a:
                for size in (1, 5, 100, 5000, 100_000):
                    data = b"\xff" + chance.randbytes(size) + bytes(40)
                    await raw(a, data)
                assert len(await until_refused(a, 5)) == 5
                await still_serves(a, pki)
                assert not [record for record in a.records if "traceback" in record]

        run(test)

    @pytest.mark.parametrize(
        "data",
        [
            b"GET / HTTP/1.1\r\nHost: node\r\n\r\n",
            PREFACE + b"\xff" * 90_000,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + bytes(9)
            + b"\0\0\x05\x01\x05\0\0\0\x01\xff\xff\xff\xff\xff",
            PREFACE + b"\0\0\x08\x07\0\0\0\0\0" + bytes(4),
        ],
    )
    def test_garbage_within_tls(self, tmp_path: Path, data: bytes) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, writer):
                    writer.write(data)
                    if not data.endswith(bytes(4)):
                        assert await is_closed(reader)
                        assert "protocol error" in (await until_refused(a))[0]
                await still_serves(a, pki)
                assert not [record for record in a.records if "traceback" in record]

        run(test)

    def test_fuzzed_frames_never_break_the_server(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            chance = random.Random(7)
            context = client_context(pki, pki.client("os:admin"))
            async with node(tmp_path, pki, answer) as a:
                for _ in range(60):
                    async with tls(a, context) as (reader, writer):
                        writer.write(fuzzed_session(chance))
                        writer.write_eof() if writer.can_write_eof() else None
                        try:
                            async with asyncio.timeout(0.05):
                                await is_closed(reader)
                        except TimeoutError:
                            pass
                await still_serves(a, pki)
                assert not [record for record in a.records if "traceback" in record]

        run(test)

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({":method": "GET"}, "405"),
            ({"content-type": "text/html"}, "415"),
            ({"content-type": ""}, "415"),
        ],
    )
    def test_http2_that_is_not_grpc(self, tmp_path: Path, headers: dict[str, str], status: str) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
                reply = await session.request(headers)
                assert reply[":status"] == status

        run(test)

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({"grpc-timeout": "soon"}, "13"),
            ({"x-bin": "%%%"}, "13"),
            ({"x": "ü"}, "3"),
            ({"x": "y" * 9000}, "8"),
            ({f"x{number}": "y" * 2000 for number in range(25)}, "8"),
        ],
    )
    def test_malformed_headers(self, tmp_path: Path, headers: dict[str, str], code: str) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
                reply = await session.request(headers)
                assert reply["grpc-status"] == code
                assert reply["grpc-message"]

        run(test)

    def test_a_huge_header_list_ends_the_connection(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                async with http2_client(a, pki) as session:
                    # One long value in the table, then references to it: little to send, much to hold.
                    with pytest.raises(ConnectionError):
                        await session.request({f"x{number}": "y" * 3000 for number in range(40)})
                assert "protocol error" in (await until_refused(a))[0]
                await still_serves(a, pki)

        run(test)

    def test_truncated_and_compressed_messages(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
                assert (await session.request({}, b"\0\0\0\0\x09abc"))["grpc-status"] == "13"
                assert (await session.request({}, b"\x01\0\0\0\x03abc"))["grpc-status"] == "12"
                assert (await session.request({}, b""))["grpc-status"] == "13"
                assert (await session.request({}, b"\0\0\0\0\x01a"))["grpc-status"] == "0"

        run(test)


def fuzzed_session(chance: random.Random) -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    connection.send_headers(
        1,
        [
            (":method", "POST"),
            (":path", READ),
            (":scheme", "https"),
            (":authority", "a"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ],
    )
    connection.send_data(1, b"\0\0\0\0\x02ab")
    connection.ping(b"12345678")
    data = bytearray(connection.data_to_send())
    for _ in range(chance.randrange(1, 6)):
        position = chance.randrange(24, len(data))
        match chance.randrange(3):
            case 0:
                data[position] ^= 1 << chance.randrange(8)
            case 1:
                del data[position : position + chance.randrange(8)]
            case _:
                kind = chance.randrange(12)
                body = chance.randbytes(chance.randrange(20))
                frame = len(body).to_bytes(3) + bytes([kind, chance.randrange(256)])
                data += frame + chance.randrange(4).to_bytes(4) + body
    return bytes(data)


class Session:
    """An HTTP/2 client that may misbehave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True, header_encoding="utf-8", validate_outbound_headers=False
            )
        )
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def begin(self, headers: dict[str, str], path: str = VERSION) -> int:
        stream = self.h2.get_next_available_stream_id()
        base = {":method": "POST", ":path": path, ":scheme": "https", ":authority": "a", "te": "trailers"}
        base |= {"content-type": "application/grpc", **headers}
        self.h2.send_headers(stream, list(base.items()))
        return stream

    async def events(self) -> list[h2.events.Event]:
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionError
        events = self.h2.receive_data(data)
        self.flush()
        return events

    async def request(self, headers: dict[str, str], body: bytes = b"\0\0\0\0\0") -> dict[str, str]:
        """All headers of the reply, trailers included."""
        stream = self.begin(headers)
        self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        found: dict[str, str] = {}
        while True:
            for event in await self.events():
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    found |= {str(key): str(value) for key, value in event.headers or ()}
                if isinstance(event, h2.events.StreamEnded):
                    return found
                if isinstance(event, h2.events.ConnectionTerminated):
                    raise ConnectionError


@asynccontextmanager
async def http2_client(target: Node, pki: Pki) -> AsyncGenerator[Session]:
    async with tls(target, client_context(pki, pki.client("os:admin"))) as (reader, writer):
        yield Session(reader, writer)


class TestLimits:
    def test_a_slow_handshake_times_out(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer, limits=Limits(handshake_timeout=0.3)) as a:
                reader, writer = await asyncio.open_connection(a.host, a.port)
                writer.write(b"\x16\x03\x01")
                assert await is_closed(reader)
                writer.close()
                assert await until_refused(a) == ["the handshake took too long"]
                await still_serves(a, pki)

        run(test)

    def test_silence_after_the_handshake_times_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def test() -> None:
            monkeypatch.setattr(http2, "GREETING_TIMEOUT", 0.3)
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, _):
                    assert await is_closed(reader)
                assert await until_refused(a) == ["no HTTP/2 after the handshake"]

        run(test)

    def test_pending_handshakes_of_one_address_are_limited(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            limits = Limits(handshakes_per_host=3, handshake_timeout=30)
            async with node(tmp_path, pki, answer, limits=limits) as a:
                pending = [await asyncio.open_connection(a.host, a.port) for _ in range(3)]
                reader, writer = await asyncio.open_connection(a.host, a.port)
                assert await is_closed(reader)
                writer.close()
                assert await until_refused(a) == ["3 handshakes of this address are pending"]
                for _, other in pending:
                    other.transport.abort()
                await asyncio.sleep(0.05)
                await still_serves(a, pki)

        run(test)

    def test_connections_are_limited(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer, limits=Limits(connections=2)) as a:
                async with http2_client(a, pki), http2_client(a, pki):
                    await knock(a, pki, pki.client("os:admin"))
                    assert await until_refused(a) == ["2 connections are open"]
                await asyncio.sleep(0.05)
                await still_serves(a, pki)

        run(test)

    def test_a_connection_without_calls_is_closed(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer, limits=Limits(idle_timeout=0.3)) as a:
                async with http2_client(a, pki) as session:
                    assert (await session.request({}))["grpc-status"] == "0"
                    assert await is_closed(session.reader)
                async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, _):
                    assert await is_closed(reader)

        run(test)

    def test_connections_of_one_address_are_limited(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            limits = Limits(connections_per_host=1)
            async with node(tmp_path, pki, answer, limits=limits) as a, http2_client(a, pki):
                await knock(a, pki, pki.client("os:admin"))
                assert await until_refused(a) == ["1 connections of this address are open"]

        run(test)

    def test_a_flood_does_not_fill_the_log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def test() -> None:
            monkeypatch.setattr(refusals, "BURST", 3)
            monkeypatch.setattr(refusals, "PERIOD", 0.5)
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                for _ in range(10):
                    await raw(a, b"GET / HTTP/1.1\r\n\r\n")
                assert len(a.refusals()) == 3
                await asyncio.sleep(0.6)
                await raw(a, b"GET / HTTP/1.1\r\n\r\n")
                assert len(a.refusals()) == 4
                assert [r["count"] for r in a.records if r["msg"] == "refused more connections"] == [7]

        run(test)

    def test_a_client_that_only_connects_is_not_worth_a_warning(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                _, writer = await asyncio.open_connection(a.host, a.port)
                writer.close()
                await still_serves(a, pki)
                assert not a.refusals()

        run(test)

    def test_a_client_that_stops_reading_costs_little(self, tmp_path: Path) -> None:
        sent = 0

        async def endless(call: GrpcCall) -> Status:
            nonlocal sent
            await call.receive()
            while True:
                await call.send(bytes(65536))
                sent += 65536

        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, endless) as a, http2_client(a, pki) as session:
                session.h2.update_settings({4: 2**31 - 1})  # pyright: ignore[reportArgumentType]
                session.h2.increment_flow_control_window(2**31 - 1 - 65535)
                stream = session.begin({}, READ)
                session.h2.send_data(stream, b"\0\0\0\0\0", end_stream=True)
                session.flush()
                session.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
                before = -1
                while sent != before:  # until nothing moves any more
                    before = sent
                    await asyncio.sleep(0.3)
                # What the kernel's buffers and those of three hops hold.
                assert 0 < sent < 32 * 1024 * 1024
                await still_answers(a, pki)

        async def still_answers(a: Node, pki: Pki) -> None:
            async with client(a, pki, pki.client("os:reader")) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, READ, timeout=1)
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

        run(test)

    def test_a_slow_handler_does_not_make_the_server_read(self, tmp_path: Path) -> None:
        async def lazy(call: GrpcCall) -> Status:
            if call.method == VERSION:
                return await answer(call)
            await call.receive()
            await asyncio.Event().wait()
            return OK

        async def test() -> None:
            pki = Pki()
            written = 0
            async with node(tmp_path, pki, lazy) as a, client(a, pki, pki.client("os:admin")) as channel:
                rpc = channel.stream_stream(RUN)()

                async def flood() -> None:
                    nonlocal written
                    while True:
                        await rpc.write(bytes(256 * 1024))
                        written += 256 * 1024

                task = asyncio.create_task(flood())
                before = -1
                while written != before:
                    before = written
                    await asyncio.sleep(0.3)
                assert written < 40 * 1024 * 1024
                # Others on the same connection are not held up.
                assert await call(channel)
                task.cancel()
                rpc.cancel()

        run(test)

    def test_a_flood_of_pings_without_reading_is_ended(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                async with http2_client(a, pki) as session:
                    session.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
                    ping = hyperframe.frame.PingFrame(0, b"12345678").serialize() * 20_000

                    async def flood() -> None:
                        while True:
                            session.writer.write(ping)
                            await asyncio.wait_for(session.writer.drain(), 10)

                    with pytest.raises(OSError):  # noqa: PT011 - reset or closed
                        await flood()
                assert await until_refused(a) == ["it asks without reading the answers"]
                await still_serves(a, pki)

        run(test)

    def test_rapid_resets_leave_nothing_behind(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                async with http2_client(a, pki) as session:
                    for _ in range(3000):
                        stream = session.begin({}, READ)
                        session.h2.reset_stream(stream)
                    session.flush()
                    assert (await session.request({}))["grpc-status"] == "0"
                await still_serves(a, pki)

        run(test)


class TestChange:
    def test_new_certificates_leave_open_streams_alone(self, tmp_path: Path) -> None:
        async def test() -> None:
            old, new = Pki(), Pki()

            async def echo(call: GrpcCall) -> Status:
                while (message := await call.receive()) is not None:
                    await call.send(message)
                return OK

            async with (  # noqa: SIM117
                node(tmp_path, old, echo) as a,
            ):
                async with client(a, old, old.client("os:admin")) as channel:
                    rpc = channel.stream_stream(RUN)()
                    await rpc.write(b"before")
                    assert await rpc.read() == b"before"
                    a.api.certificates.set(new.spec())
                    async with client(a, new, new.client("os:admin")) as fresh:
                        assert await call(fresh, request=b"new") == b"new"
                    await knock(a, old, old.client("os:admin"))
                    await rpc.write(b"after")
                    assert await rpc.read() == b"after"
                    # A new call on the old connection, too.
                    assert await call(channel, request=b"old") == b"old"
                    await rpc.done_writing()
                    assert await rpc.code() is grpc.StatusCode.OK

        run(test)

    def test_unusable_certificates_are_reported_and_not_used(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer) as a:
                broken = pki.spec()
                broken.server.key = b"nonsense"
                a.api.certificates.set(broken)
                assert a.records[-1]["level"] == "error"
                await still_serves(a, pki)

        run(test)

    def test_a_stream_through_a_peer_survives_the_change(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()

            async def echo(call: GrpcCall) -> Status:
                while (message := await call.receive()) is not None:
                    await call.send(message)
                return OK

            from .world import free_port

            port = free_port()
            async with (
                node(tmp_path / "a", pki, echo, port=port) as a,
                node(tmp_path / "b", pki, echo, host="127.0.0.2", port=port),
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                to_b = (("node", "127.0.0.2"),)
                rpc = channel.stream_stream(RUN)(metadata=to_b)
                await rpc.write(b"1")
                assert await rpc.read() == b"1"
                a.api.certificates.set(pki.spec())
                await rpc.write(b"2")
                assert await rpc.read() == b"2"
                assert await call(channel, request=b"3", metadata={"node": "127.0.0.2"}) == b"3"
                await rpc.done_writing()
                assert await rpc.code() is grpc.StatusCode.OK

        run(test)


class TestStop:
    def test_open_calls_finish_within_the_grace(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            begun, go = asyncio.Event(), asyncio.Event()

            async def slow(call: GrpcCall) -> Status:
                begun.set()
                await go.wait()
                return await answer(call)

            async with node(tmp_path, pki, slow) as a, client(a, pki, pki.client("os:admin")) as channel:
                rpc = channel.unary_unary(VERSION)(b"")
                await asyncio.wait_for(begun.wait(), 10)
                stopping = asyncio.create_task(a.api.stop(10))
                await asyncio.sleep(0.1)
                assert not stopping.done()
                with pytest.raises(OSError):  # noqa: PT011
                    await asyncio.open_connection(a.host, a.port)
                go.set()
                assert await rpc
                await asyncio.wait_for(stopping, 5)

        run(test)

    def test_calls_that_do_not_finish_are_ended(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            begun = asyncio.Event()

            async def endless(call: GrpcCall) -> Status:
                begun.set()
                await asyncio.Event().wait()
                return OK

            async with node(tmp_path, pki, endless) as a, client(a, pki, pki.client("os:admin")) as channel:
                rpc = channel.unary_stream(READ)(b"")
                await asyncio.wait_for(begun.wait(), 10)
                await asyncio.wait_for(a.api.stop(0.3), 5)
                assert await rpc.code() is grpc.StatusCode.UNAVAILABLE

        run(test)

    def test_both_families(self, tmp_path: Path) -> None:
        async def test() -> None:
            pki = Pki()
            async with node(tmp_path, pki, answer, host="") as a:
                for host in ("127.0.0.1", "::1"):
                    there = Node(a.api, a.port, host, a.lines)
                    await still_serves(there, pki)

        run(test)
