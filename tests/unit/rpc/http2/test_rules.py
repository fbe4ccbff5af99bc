"""What RFC 9113 and RFC 7541 forbid ends the connection with their code, on sockets and on ports."""

import asyncio
from pathlib import Path

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.rpc.port import world as port

from talos.rpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Bounds,
    ErrorCode,
    Kind,
    ProtocolError,
    Setting,
    make_frame,
    make_reset,
    make_settings,
)
from talos.rpc.http2.headers import NO_TABLE, encode_headers
from talos.rpc.http2.rules import check_reply, check_request, check_trailers, parse_length

from .test_frames import HEADERS, HELLO, MESSAGE, WAITING, in_world, setting
from .test_frames import World as SocketWorld

TABLED = b"\x40\x01x\x01y"
"""A pair that is to be put into the table."""
ACKNOWLEDGED = make_frame(Kind.SETTINGS, ACK, 0, b"")
TRAILERS = encode_headers((("a", "trailer"),))


def begin(number: int, *more: tuple[str, str], ended: bool = False, **changed: str) -> bytes:
    """The headers of a request; ``changed`` are pseudo-headers."""
    values = {**dict(HEADERS), ":path": "/a.B/Wait", "content-type": "application/grpc"}
    values |= {f":{key}": value for key, value in changed.items()}
    block = NO_TABLE + encode_headers((*values.items(), *more))
    return make_frame(Kind.HEADERS, END_HEADERS | (END_STREAM if ended else 0), number, block)


def data(number: int, content: bytes = MESSAGE, *, ended: bool = False) -> bytes:
    return make_frame(Kind.DATA, END_STREAM if ended else 0, number, content)


PROTOCOL, CLOSED, COMPRESSION = ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR
FRAME_SIZE = ErrorCode.FRAME_SIZE_ERROR

BREACHES = {
    "3.4 no settings": (PREFACE + begin(1), PROTOCOL),
    "3.4 an acknowledgement first": (PREFACE + ACKNOWLEDGED + begin(1), PROTOCOL),
    "4.3 a block that is none": (HELLO + make_frame(Kind.HEADERS, END_HEADERS, 1, b"\xff" * 9), COMPRESSION),
    "4.3.1 a table that was to be given up": (
        HELLO
        + make_frame(Kind.HEADERS, END_HEADERS, 1, WAITING + TABLED)
        + ACKNOWLEDGED
        + make_frame(Kind.HEADERS, END_HEADERS, 3, WAITING),
        COMPRESSION,
    ),
    "6.3 of RFC 7541, a table larger than allowed": (
        HELLO + ACKNOWLEDGED + make_frame(Kind.HEADERS, END_HEADERS, 1, b"\x21" + WAITING),
        COMPRESSION,
    ),
    "5.1 data after the end": (HELLO + begin(1, ended=True) + data(1), CLOSED),
    "5.1 headers after the end": (HELLO + begin(1, ended=True) + begin(1), CLOSED),
    "5.1 data after a reset": (HELLO + begin(1) + make_reset(1, 8) + data(1), CLOSED),
    "5.1 headers after a reset": (HELLO + begin(1) + make_reset(1, 8) + begin(1, ended=True), CLOSED),
    "5.1 data after the end of a refused request": (
        HELLO + begin(1, ("grpc-timeout", "soon"), ended=True) + data(1),
        CLOSED,
    ),
    "5.1.1 a lower number": (HELLO + begin(5) + begin(3), PROTOCOL),
    "6.1 padding of a stream that is over": (
        HELLO + begin(1, ("grpc-timeout", "soon")) + make_frame(Kind.DATA, 0x8, 1, b"\5xxx"),
        PROTOCOL,
    ),
    "6.3 a priority of no stream": (HELLO + make_frame(Kind.PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "6.3 a priority of a wrong size": (HELLO + make_frame(Kind.PRIORITY, 0, 1, bytes(4)), FRAME_SIZE),
    "5.3.1 a stream that depends on itself": (
        HELLO + make_frame(Kind.PRIORITY, 0, 3, b"\0\0\0\3\0"),
        PROTOCOL,
    ),
    "8.1 headers in the middle": (HELLO + begin(1) + begin(1), PROTOCOL),
    "8.1 headers in the middle of what was refused": (
        HELLO + begin(1, ("grpc-timeout", "soon")) + make_frame(Kind.HEADERS, END_HEADERS, 1, TRAILERS),
        PROTOCOL,
    ),
    "8.1 a pseudo-header in trailers": (
        HELLO
        + begin(1)
        + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, encode_headers(((":method", "POST"),))),
        PROTOCOL,
    ),
    "8.1.1 more than was announced": (HELLO + begin(1, ("content-length", "3")) + data(1), PROTOCOL),
    "8.1.1 less than was announced": (
        HELLO + begin(1, ("content-length", "30")) + data(1) + data(1, ended=True),
        PROTOCOL,
    ),
    "8.1.1 nothing of what was announced": (
        HELLO + begin(1, ("content-length", "30"), ended=True),
        PROTOCOL,
    ),
    "8.1.1 trailers instead of what was announced": (
        HELLO
        + begin(1, ("content-length", "30"))
        + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS),
        PROTOCOL,
    ),
    "8.1.1 of a request that was refused": (
        HELLO + begin(1, ("grpc-timeout", "soon"), ("content-length", "3")) + data(1, ended=True),
        PROTOCOL,
    ),
    "8.1.1 no number": (HELLO + begin(1, ("content-length", "+7")), PROTOCOL),
    "8.1.1 two numbers": (HELLO + begin(1, ("content-length", "7"), ("content-length", "8")), PROTOCOL),
    "8.2.1 a capital": (HELLO + begin(1, ("X", "y")), PROTOCOL),
    "8.2.1 a line's end": (HELLO + begin(1, ("x", "a\r\nb")), PROTOCOL),
    "8.2.2 connection": (HELLO + begin(1, ("connection", "close")), PROTOCOL),
    "8.3 a pseudo-header that is missing": (
        HELLO + make_frame(Kind.HEADERS, END_HEADERS, 1, encode_headers(HEADERS[1:])),
        PROTOCOL,
    ),
    "8.3 a pseudo-header that is repeated": (HELLO + begin(1, (":path", "/a.B/C")), PROTOCOL),
    "8.3 a pseudo-header after others": (HELLO + begin(1, ("x", "y"), (":late", "z")), PROTOCOL),
    "8.3 no path": (HELLO + begin(1, path=""), PROTOCOL),
}


def has_ended(found: bytes, code: int) -> bool:
    """Whether a GOAWAY with this code is among the frames."""
    position = 0
    while position + 9 <= len(found):
        length, kind = int.from_bytes(found[position : position + 3]), found[position + 3]
        if kind == Kind.GOAWAY:
            return int.from_bytes(found[position + 13 : position + 17]) == code
        position += 9 + length
    return False


@pytest.mark.parametrize("name", BREACHES)
def test_on_a_unix_socket(tmp_path: Path, name: str) -> None:
    sent, code = BREACHES[name]

    async def test(world: SocketWorld) -> None:
        assert has_ended(await world.exchange(sent), code)

    in_world(tmp_path, test)


@pytest.mark.parametrize("name", BREACHES)
def test_on_a_port(name: str) -> None:
    sent, code = BREACHES[name]

    async def test() -> None:
        world = port.World(header_size=20_000)
        world.feed(sent)
        assert has_ended(world.transport.written, code)
        assert all(len(reason) <= 256 for reason in world.refusals)
        world.end()
        await asyncio.sleep(0)

    asyncio.run(test())


def test_a_body_of_the_announced_length_is_taken(tmp_path: Path) -> None:
    async def test(world: SocketWorld) -> None:
        request = begin(1, ("content-length", str(2 * len(MESSAGE))), path="/a.B/C")
        sent = HELLO + request + data(1) + data(1, ended=True)
        assert MESSAGE in await world.exchange(sent, until=b"grpc-status")

    in_world(tmp_path, test)


def test_a_late_settings_frame_does_not_multiply(tmp_path: Path) -> None:
    """Of a setting that is repeated in one frame the last one counts; each goes to every stream."""

    async def test(world: SocketWorld) -> None:
        window = Setting.INITIAL_WINDOW_SIZE.to_bytes(2)
        repeated = b"".join(window + number.to_bytes(4) for number in (1, 0x7FFFFFFF, 100))
        sent = HELLO + begin(1) + make_frame(Kind.SETTINGS, 0, 0, repeated)
        sent += make_frame(Kind.PING, 0, 0, b"12345678")
        found = await world.exchange(sent, until=b"12345678")
        assert not has_ended(found, ErrorCode.FLOW_CONTROL_ERROR)

    in_world(tmp_path, test)


REPLY = encode_headers(((":status", "200"), ("content-type", "application/grpc")))
END = encode_headers((("grpc-status", "0"),))

REPLIES = {
    "8.3.2 no status": (make_frame(Kind.HEADERS, END_HEADERS, 1, END), PROTOCOL),
    "8.3.2 two statuses": (
        make_frame(Kind.HEADERS, END_HEADERS, 1, encode_headers(((":status", "200"), (":status", "200")))),
        PROTOCOL,
    ),
    "8.3.2 a request's": (
        make_frame(Kind.HEADERS, END_HEADERS, 1, encode_headers(((":status", "200"), (":path", "/")))),
        PROTOCOL,
    ),
    "8.1 trailers without an end": (
        make_frame(Kind.HEADERS, END_HEADERS, 1, REPLY) + make_frame(Kind.HEADERS, END_HEADERS, 1, END),
        PROTOCOL,
    ),
    "8.1 a status in trailers": (
        make_frame(Kind.HEADERS, END_HEADERS, 1, REPLY)
        + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, REPLY),
        PROTOCOL,
    ),
    "8.1.1 another length": (
        make_frame(Kind.HEADERS, END_HEADERS, 1, REPLY + encode_headers((("content-length", "3"),)))
        + data(1),
        PROTOCOL,
    ),
    "8.1.1 another length, of a page": (
        make_frame(
            Kind.HEADERS, END_HEADERS, 1, encode_headers(((":status", "404"), ("content-length", "3")))
        )
        + data(1),
        PROTOCOL,
    ),
    "8.2.2 connection": (
        make_frame(
            Kind.HEADERS, END_HEADERS, 1, encode_headers(((":status", "200"), ("connection", "close")))
        ),
        PROTOCOL,
    ),
    "6.5.2 pushes enabled": (setting(Setting.ENABLE_PUSH, 1), PROTOCOL),
    "5.1 data after the end": (
        make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, REPLY) + data(1),
        CLOSED,
    ),
    "5.1.1 a stream of the server's": (make_frame(Kind.HEADERS, END_HEADERS, 2, REPLY), PROTOCOL),
    "6.6 a push": (make_frame(Kind.PUSH_PROMISE, END_HEADERS, 1, REPLY), PROTOCOL),
}


async def be_server(tmp_path: Path, sent: bytes) -> bytes:
    """What a client of ours sends to a server that answers its first call with these frames."""
    from talos.rpc.proxy.local import open_local

    found = bytearray()
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(make_settings(Bounds()))
        while b"/a.B/C" not in found:
            found.extend(await reader.read(65536))
        writer.write(sent)
        while part := await reader.read(65536):
            found.extend(part)
        writer.close()
        done.set()

    async with await asyncio.start_unix_server(serve, tmp_path / "socket"):
        channel = open_local(str(tmp_path / "socket"))
        call = await channel.begin("/a.B/C", (), 10)
        await call.end()
        await asyncio.sleep(0)
        channel.close()
        await asyncio.wait_for(done.wait(), REAL_TIMEOUT)
    return bytes(found).removeprefix(PREFACE)


@pytest.mark.parametrize("name", REPLIES)
def test_replies(tmp_path: Path, name: str) -> None:
    sent, code = REPLIES[name]
    assert has_ended(asyncio.run(be_server(tmp_path, sent)), code)


def test_what_a_reply_may_be() -> None:
    assert check_reply(((":status", "200"), ("grpc-message", " of Go's "))) == {
        ":status": "200",
        "grpc-message": " of Go's ",
    }
    assert check_trailers((("grpc-status", "0"),)) == {"grpc-status": "0"}


def test_a_pseudo_header_of_a_request_is_before_all_others() -> None:
    *first, authority, last = HEADERS
    assert check_request((*first, authority, last))[":authority"] == "x"
    with pytest.raises(ProtocolError, match="the header :authority is unknown, repeated or out of order"):
        check_request((*first, last, authority))


@pytest.mark.parametrize(("digits", "length"), [(18, 10**18 - 1), (19, None)])
def test_an_announced_length_has_at_most_18_digits(digits: int, length: int | None) -> None:
    known = {"content-length": "9" * digits}
    if length is None:
        with pytest.raises(ProtocolError, match="content-length is no number"):
            parse_length(known)
    else:
        assert parse_length(known) == length


@pytest.mark.parametrize(("size", "is_remembered"), [(2015, True), (2016, False)])
def test_lists_are_checked_once_up_to_2_kib_as_hpack_counts(size: int, *, is_remembered: bool) -> None:
    trailers = (("a", "z" * size),)
    assert (check_trailers(trailers) is check_trailers(trailers)) == is_remembered


def test_lists_are_forgotten_when_there_are_many() -> None:
    known = check_trailers((("a", "b"),))
    assert check_trailers((("a", "b"),)) is known
    for number in range(512):
        check_trailers((("number", f"{number}"),))
    assert check_trailers((("a", "b"),)) is not known
