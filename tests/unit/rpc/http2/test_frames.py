"""The transport between daemons against a peer that makes its own frames.

What ends the connection, what is bounded, and that the server goes on.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import h2.errors
import h2.settings
import hyperframe.frame
import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.fuzz.mutation import mutate

from talos.api.rpc import Code
from talos.rpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    MAX_WINDOW,
    PADDED,
    PREFACE,
    PRIORITY,
    Bounds,
    ErrorCode,
    FlowControlError,
    FrameSizeError,
    Kind,
    ProtocolError,
    Setting,
    make_frame,
    make_reset,
    make_settings,
    make_window_update,
    parse_number,
    parse_settings,
    strip_padding,
    strip_priority,
)
from talos.rpc.http2.headers import encode_headers
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status
from talos.rpc.proxy.local import make_server, open_local
from talos.system.logging import Log

HEADERS = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.B/C"),
    (":authority", "x"),
    ("te", "trailers"),
)
BLOCK = encode_headers(HEADERS)
MESSAGE = b"\0\0\0\0\2hi"
WAITING = encode_headers(tuple((key, "/a.B/Wait" if key == ":path" else value) for key, value in HEADERS))
CALL = make_frame(Kind.HEADERS, END_HEADERS, 1, BLOCK) + make_frame(Kind.DATA, END_STREAM, 1, MESSAGE)
HELLO = PREFACE + make_frame(Kind.SETTINGS, 0, 0, b"")
OPEN = HELLO + make_frame(Kind.HEADERS, END_HEADERS, 1, BLOCK)
BOUNDS = Bounds()


def setting(name: int, value: int) -> bytes:
    return make_frame(Kind.SETTINGS, 0, 0, name.to_bytes(2) + value.to_bytes(4))


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW, None),
        (Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW + 1, FlowControlError),
        (Setting.MAX_FRAME_SIZE, (1 << 14) - 1, ProtocolError),
        (Setting.MAX_FRAME_SIZE, 1 << 14, None),
        (Setting.MAX_FRAME_SIZE, (1 << 24) - 1, None),
        (Setting.MAX_FRAME_SIZE, 1 << 24, ProtocolError),
        (Setting.ENABLE_PUSH, 1, None),
        (Setting.ENABLE_PUSH, 2, ProtocolError),
        (0x99, 0xFFFFFFFF, None),
    ],
)
def test_settings_are_taken_up_to_their_bounds(name: int, value: int, error: type[Exception] | None) -> None:
    payload = name.to_bytes(2) + value.to_bytes(4)
    with pytest.raises(error) if error else nullcontext():
        assert parse_settings(payload) == [(name, value)]


def parse(data: bytes) -> list[hyperframe.frame.Frame]:
    """Frames, by a library that is not of this project."""
    found: list[hyperframe.frame.Frame] = []
    while data:
        frame, size = hyperframe.frame.Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        found.append(frame)
        data = data[9 + size :]
    return found


def test_a_connection_announces_its_bounds() -> None:
    bounds = Bounds(frame=20_000, headers=30_000, streams=7, stream_window=40_000, connection_window=100_000)
    values = {1: 0, 3: 7, 4: 40_000, 5: 20_000, 6: 30_000}
    for is_client, expected in ((False, values), (True, values | {2: 0})):
        settings, window = parse(make_settings(bounds, is_client=is_client))
        assert isinstance(settings, hyperframe.frame.SettingsFrame)
        assert isinstance(window, hyperframe.frame.WindowUpdateFrame)
        assert (settings.settings, settings.stream_id) == (expected, 0)
        assert (window.window_increment, window.stream_id) == (100_000 - 65_535, 0)


def test_frames_are_these_bytes() -> None:
    assert make_frame(Kind.DATA, END_STREAM, 3, bytes(0x12345))[:9].hex(" ", -3) == "012345 000100 000003"
    assert make_reset(3, 8).hex() == "00000403000000000300000008"
    assert make_window_update(3, 1 << 16).hex() == "00000408000000000300010000"


def test_numbers_are_those_of_the_protocol() -> None:
    kinds = {frame.__name__.lower(): frame.type for frame in hyperframe.frame.Frame.__subclasses__()}
    numbers = {name: value for name, value in vars(Kind).items() if name.isupper()}
    assert numbers == {name: kinds[f"{name.replace('_', '').lower()}frame"] for name in numbers}
    flags = {flag.name: flag.bit for flag in hyperframe.frame.HeadersFrame.defined_flags}
    assert flags == {
        "END_STREAM": END_STREAM,
        "END_HEADERS": END_HEADERS,
        "PADDED": PADDED,
        "PRIORITY": PRIORITY,
    }
    for ours, theirs in ((ErrorCode, h2.errors.ErrorCodes), (Setting, h2.settings.SettingCodes)):
        numbers = {name: value for name, value in vars(ours).items() if name.isupper()}
        assert numbers == {name: theirs[name] for name in numbers}


@pytest.mark.parametrize("payload", [bytes(3), bytes(5)])
def test_a_number_has_four_bytes(payload: bytes) -> None:
    assert parse_number(b"\x80\0\0\1") == 0x80000001
    with pytest.raises(FrameSizeError, match="a frame of a wrong size"):
        parse_number(payload)


def test_padding_and_priority_are_taken_off_to_the_last_byte() -> None:
    assert strip_padding(0, b"\2ab") == b"\2ab"
    assert [strip_padding(PADDED, payload) for payload in (b"\1ab", b"\2ab", b"\0")] == [b"a", b"", b""]
    for payload in (b"", b"\1", b"\3ab"):
        with pytest.raises(ProtocolError, match="more padding than frame"):
            strip_padding(PADDED, payload)
    alone = (3).to_bytes(4) + b"\0"
    assert strip_priority(PRIORITY, 1, alone) == b""
    assert strip_priority(PRIORITY | PADDED, 1, b"\1" + alone + b"ab") == b"a"
    with pytest.raises(FrameSizeError, match="too short for their priority"):
        strip_priority(PRIORITY, 1, alone[:-1])
    with pytest.raises(ProtocolError, match="depends on itself"):  # the first bit makes it exclusive
        strip_priority(PRIORITY, 3, b"\x80" + alone[1:])


class World:
    """A server that answers with the request, and peers that speak to it in bytes."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.defects: list[dict[str, Any]] = []
        self.server: LocalServer

    async def answer(self, call: ServerCall) -> Status:
        if call.method == "/a.B/Wait":
            await asyncio.Event().wait()
        while (message := await call.receive()) is not None:
            await call.send(message)
        return Status(code=0)

    async def exchange(self, data: bytes, *, until: bytes = b"") -> bytes:
        """What comes back for some bytes, until the connection ends or something is in it."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(data)
        found = b""
        with suppress(ConnectionError):
            async with asyncio.timeout(REAL_TIMEOUT):
                while part := await reader.read(65536):
                    found += part
                    if until and until in found:
                        break
        writer.close()
        return found

    async def check_alive(self) -> None:
        """An ordinary call is answered."""
        channel = open_local(self.path)
        try:
            call = await channel.begin("/a.B/C", (), 10.0)
            await call.send(b"ping", last=True)
            assert await call.receive() == b"ping"
            assert (await call.end()).code == Code.OK
        finally:
            channel.close()


def in_world(tmp_path: Path, test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(tmp_path / "socket")
        asyncio.get_running_loop().set_exception_handler(lambda _, context: world.defects.append(context))
        world.server = make_server(world.answer, Log(write=lambda _: None))
        await world.server.start(world.path)
        try:
            await test(world)
            await world.check_alive()
        finally:
            await world.server.stop(0)
        assert world.defects == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(20), b"no preface"),
        (HELLO + make_frame(Kind.DATA, 0, 1, bytes(BOUNDS.frame + 1)), b"a frame of"),
        (
            HELLO + make_frame(Kind.HEADERS, 0, 1, BLOCK) + make_frame(Kind.PING, 0, 0, bytes(8)),
            b"interrupted",
        ),
        (HELLO + make_frame(Kind.CONTINUATION, END_HEADERS, 1, BLOCK), b"a continuation of nothing"),
        (HELLO + make_frame(Kind.HEADERS, END_HEADERS, 2, BLOCK), b"server's kind"),
        (
            HELLO + make_frame(Kind.HEADERS, END_HEADERS | PADDED, 1, b"\xff" + BLOCK),
            b"more padding than frame",
        ),
        (HELLO + make_frame(Kind.HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), b"protocol error"),
        (HELLO + make_frame(Kind.WINDOW_UPDATE, 0, 0, b"\1"), b"a frame of a wrong size"),
        (
            HELLO
            + make_frame(Kind.HEADERS, 0, 1, bytes(60000))
            + make_frame(Kind.CONTINUATION, 0, 1, bytes(60000)),
            b"headers of more than",
        ),
        (HELLO + make_frame(Kind.DATA, 0, 99, b"of no call"), b"which has not begun"),
        (HELLO + make_frame(Kind.DATA, 0, 0, b"of no call"), b"which has not begun"),
        (HELLO + make_reset(99, 0), b"which has not begun"),
        (HELLO + make_window_update(99, 1), b"which has not begun"),
        (HELLO + make_window_update(0, 0), b"opened by nothing"),
        (HELLO + make_window_update(0, MAX_WINDOW), b"a window of"),
        (OPEN + make_window_update(1, MAX_WINDOW), b"a window of"),
        (OPEN + setting(Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW + 1), b"an initial window of"),
        (HELLO + setting(Setting.MAX_FRAME_SIZE, 16383), b"frames of at most"),
        (HELLO + setting(Setting.ENABLE_PUSH, 2), b"pushes"),
        (HELLO + make_frame(Kind.SETTINGS, 0, 0, bytes(7)), b"settings of a wrong size"),
        (HELLO + make_frame(Kind.SETTINGS, ACK, 0, bytes(6)), b"an acknowledgement with settings"),
        (HELLO + make_frame(Kind.SETTINGS, 0, 1, b""), b"on a stream"),
        (HELLO + make_frame(Kind.PING, 0, 0, bytes(7)), b"a ping of a wrong size"),
        (HELLO + make_frame(Kind.GOAWAY, 0, 0, bytes(7)), b"a goaway of a wrong size"),
        (HELLO + make_frame(Kind.PUSH_PROMISE, END_HEADERS, 1, BLOCK), b"a push"),
        (
            HELLO + make_frame(Kind.HEADERS, END_HEADERS | PRIORITY, 1, bytes(4)),
            b"too short for their priority",
        ),
        (OPEN + make_frame(Kind.HEADERS, END_HEADERS, 1, BLOCK), b"in the middle of a request"),
        (
            OPEN + make_frame(Kind.DATA, END_STREAM, 1, b"") + make_frame(Kind.DATA, 0, 1, b"x"),
            b"data after the end",
        ),
        (
            OPEN
            + make_frame(Kind.DATA, END_STREAM, 1, b"")
            + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, BLOCK),
            b"headers after the end",
        ),
        (
            HELLO
            + make_frame(Kind.HEADERS, END_HEADERS, 1, WAITING)
            + make_frame(Kind.DATA, 0, 1, bytes(BOUNDS.frame))
            + make_frame(Kind.DATA, 0, 1, b"x"),
            b"more data than the stream's window",
        ),
    ],
)
def test_a_breach_ends_the_connection(tmp_path: Path, data: bytes, reason: bytes) -> None:
    async def test(world: World) -> None:
        assert reason in await world.exchange(data)

    in_world(tmp_path, test)


def test_headers_come_in_pieces_and_with_padding(tmp_path: Path) -> None:
    pieces = [BLOCK[:5], BLOCK[5:9], BLOCK[9:]]
    data = (
        HELLO
        + make_frame(Kind.HEADERS, PADDED, 1, b"\3" + pieces[0] + bytes(3))
        + make_frame(Kind.CONTINUATION, 0, 1, pieces[1])
        + make_frame(Kind.CONTINUATION, END_HEADERS, 1, pieces[2])
        + make_frame(Kind.DATA, END_STREAM | PADDED, 1, b"\4" + MESSAGE + bytes(4))
    )

    async def test(world: World) -> None:
        assert MESSAGE in await world.exchange(data, until=b"grpc-status")

    in_world(tmp_path, test)


def test_what_is_unknown_or_over_is_ignored(tmp_path: Path) -> None:
    # Answered by its headers: its sender may not have received that yet.
    refused = encode_headers((*HEADERS, ("grpc-timeout", "soon")))
    data = (
        HELLO
        + make_frame(0xFE, 0, 7, b"new")
        + make_frame(Kind.SETTINGS, ACK, 0, b"")
        + make_frame(Kind.PRIORITY, 0, 5, bytes(5))
        + make_frame(Kind.HEADERS, END_HEADERS, 1, refused)
        + make_frame(Kind.DATA, 0, 1, b"of no call")
        + make_window_update(1, 1)
        + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, encode_headers((("a", "trailer"),)))
        + make_window_update(1, 1)
        + make_frame(Kind.HEADERS, END_HEADERS, 3, refused)
        + make_reset(3, 8)
        + make_reset(3, 8)
        + make_frame(Kind.GOAWAY, 0, 0, bytes(8))
        + make_frame(Kind.PING, 0, 0, b"12345678")
    )

    async def test(world: World) -> None:
        assert make_frame(Kind.PING, ACK, 0, b"12345678") in await world.exchange(data, until=b"12345678")

    in_world(tmp_path, test)


def test_calls_of_a_connection_are_bounded(tmp_path: Path) -> None:
    opened = b"".join(
        make_frame(Kind.HEADERS, END_HEADERS, 2 * number + 1, WAITING) for number in range(BOUNDS.streams + 1)
    )
    refused = make_frame(Kind.RST_STREAM, 0, 2 * BOUNDS.streams + 1, (7).to_bytes(4))

    async def test(world: World) -> None:
        assert refused in await world.exchange(HELLO + opened, until=refused)

    in_world(tmp_path, test)


def test_header_lists_are_bounded(tmp_path: Path) -> None:
    # References to the static table: one byte each, about fifty as HPACK counts.
    bomb = BLOCK + b"\x90" * (BOUNDS.headers // 16)

    async def test(world: World) -> None:
        data = HELLO + make_frame(Kind.HEADERS, END_HEADERS, 1, bomb)
        assert b"protocol error" in await world.exchange(data)

    in_world(tmp_path, test)


def test_mutated_traffic_never_breaks_the_server(tmp_path: Path) -> None:
    dice = random.Random(7)
    seeds = [
        HELLO + CALL,
        HELLO + CALL + make_frame(Kind.PING, 0, 0, bytes(8)) + make_frame(Kind.WINDOW_UPDATE, 0, 0, bytes(4)),
        HELLO
        + make_frame(Kind.HEADERS, 0, 1, BLOCK[:7])
        + make_frame(Kind.CONTINUATION, END_HEADERS, 1, BLOCK[7:])
        + make_frame(Kind.RST_STREAM, 0, 1, bytes(4)),
    ]

    async def test(world: World) -> None:
        for _ in range(400):
            reader, writer = await asyncio.open_unix_connection(world.path)
            writer.write(mutate(dice, seeds))
            writer.write_eof()
            with suppress(ConnectionError):
                async with asyncio.timeout(REAL_TIMEOUT):
                    while await reader.read(65536):
                        pass
            writer.close()

    in_world(tmp_path, test)
