"""What is no TLS, no HTTP/2 or no gRPC."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import random
from pathlib import Path

import h2.config
import h2.connection
import pytest

from .raw_clients import (
    PREFACE,
    answer,
    client_context,
    http2_client,
    raw,
    still_serves,
    tls,
    until_refused,
    wait_until_closed,
)
from .world import READ, Pki, node

pytestmark = pytest.mark.asyncio


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


class TestGarbage:
    async def test_plain_http(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            await raw(a, b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
            assert await until_refused(a) == ["plain HTTP on a TLS port"]
            await still_serves(a, pki)

    async def test_random_bytes(self, tmp_path: Path, pki: Pki) -> None:
        chance = random.Random(1)
        async with node(tmp_path, pki, answer) as a:
            for size in (1, 5, 100, 5000, 100_000):
                data = b"\xff" + chance.randbytes(size) + bytes(40)
                await raw(a, data)
            assert len(await until_refused(a, 5)) == 5
            await still_serves(a, pki)
            assert not [record for record in a.records if "traceback" in record]

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
    async def test_garbage_within_tls(self, tmp_path: Path, data: bytes, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            async with tls(a, client_context(pki, pki.client("os:admin"))) as (reader, writer):
                writer.write(data)
                if not data.endswith(bytes(4)):
                    await wait_until_closed(reader)
                    assert "protocol error" in (await until_refused(a))[0]
            await still_serves(a, pki)
            assert not [record for record in a.records if "traceback" in record]

    async def test_fuzzed_frames_never_break_the_server(self, tmp_path: Path, pki: Pki) -> None:
        chance = random.Random(7)
        context = client_context(pki, pki.client("os:admin"))
        async with node(tmp_path, pki, answer) as a:
            for _ in range(60):
                async with tls(a, context) as (reader, writer):
                    writer.write(fuzzed_session(chance))
                    writer.write_eof() if writer.can_write_eof() else None
                    try:
                        async with asyncio.timeout(0.05):
                            await wait_until_closed(reader)
                    except TimeoutError:
                        pass
            await still_serves(a, pki)
            assert not [record for record in a.records if "traceback" in record]

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({":method": "GET"}, "405"),
            ({"content-type": "text/html"}, "415"),
            ({"content-type": ""}, "415"),
        ],
    )
    async def test_http2_that_is_not_grpc(
        self, tmp_path: Path, headers: dict[str, str], status: str, pki: Pki
    ) -> None:
        async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
            reply = await session.request(headers)
            assert reply[":status"] == status

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({"grpc-timeout": "soon"}, "13"),
            ({":authority": "ü"}, "3"),
            ({":authority": "a" * 400}, "3"),
            ({"x-bin": "%%%"}, "13"),
            ({"x": "ü"}, "3"),
            ({"x": "y" * 9000}, "8"),
            ({f"x{number}": "y" * 2000 for number in range(25)}, "8"),
        ],
    )
    async def test_malformed_headers(
        self, tmp_path: Path, headers: dict[str, str], code: str, pki: Pki
    ) -> None:
        async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
            reply = await session.request(headers)
            assert reply["grpc-status"] == code
            assert reply["grpc-message"]

    async def test_the_longest_timeout_is_no_timeout(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
            assert (await session.request({"grpc-timeout": "99999999H"}))["grpc-status"] == "0"

    async def test_a_huge_header_list_ends_the_connection(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            async with http2_client(a, pki) as session:
                # One long value in the table, then references to it: little to send, much to hold.
                with pytest.raises(ConnectionError):
                    await session.request({f"x{number}": "y" * 3000 for number in range(40)})
            assert "protocol error" in (await until_refused(a))[0]
            await still_serves(a, pki)

    async def test_truncated_and_compressed_messages(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a, http2_client(a, pki) as session:
            assert (await session.request({}, b"\0\0\0\0\x09abc"))["grpc-status"] == "13"
            assert (await session.request({}, b"\x01\0\0\0\x03abc"))["grpc-status"] == "12"
            assert (await session.request({}, b""))["grpc-status"] == "13"
            assert (await session.request({}, b"\0\0\0\0\x01a"))["grpc-status"] == "0"
