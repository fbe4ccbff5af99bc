"""A port measures frames as they arrive, however they are cut."""

import asyncio
from collections.abc import Callable

import hyperframe.frame
import pytest
from tests.harness.limits import REAL_TIMEOUT

from talos.api.rpc import RpcError
from talos.rpc.http2.frames import Kind
from talos.rpc.http2.headers import encode_headers
from talos.rpc.http2.meter import DEFAULT_RATES, FloodError, FrameMeter, FrameRates

from .world import PREFACE, World

HEADERS = (
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/a.B/C"),
    (":authority", "a"),
    ("content-type", "application/grpc"),
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


FEW = FrameRates(control=50, settings=5)


def in_world(test: Callable[[World], None], rates: FrameRates = DEFAULT_RATES) -> None:
    async def run() -> None:
        world = World(rates=rates)
        world.feed(PREFACE)
        try:
            test(world)
        finally:
            world.end()
            await asyncio.sleep(0)

    asyncio.run(run())


def headers(size: int, *flags: str, stream: int = 1) -> bytes:
    """A frame with a block of this size, which is a request's if it is complete."""
    block = encode_headers(HEADERS)
    block += b"\0\1x" + encode_length(size - len(block) - 5) + bytes(b"a" * (size - len(block) - 5))
    assert len(block) == size
    return hyperframe.frame.HeadersFrame(stream, block, flags=flags).serialize()


def encode_length(number: int) -> bytes:
    """A length of HPACK in two bytes."""
    assert 127 <= number < 255
    return bytes((0x7F, number - 127))


def continuation(size: int, *flags: str, stream: int = 0) -> bytes:
    return hyperframe.frame.ContinuationFrame(stream or 1, bytes(size), flags=flags).serialize()


@pytest.mark.parametrize("step", [1, 2, 8, 9, 10, 33, 5000])
def test_what_is_allowed_in_pieces_of_any_size(step: int) -> None:
    def test(world: World) -> None:
        data = b"".join(
            headers(300, "END_HEADERS", stream=stream)
            + hyperframe.frame.DataFrame(stream, bytes(16384)).serialize()
            for stream in (1, 3, 5)
        )
        world.feed(data, step)
        assert len(world.connection.streams) == 3
        assert not world.lines
        world.feed(headers(300, stream=7) + continuation(701, stream=7), step)
        assert world.refusals == ["HTTP/2 protocol error: headers of more than 1000 bytes"]

    in_world(test)


@pytest.mark.parametrize("step", [1, 4, 9])
def test_a_frame_is_refused_by_its_announced_length(step: int) -> None:
    def test(world: World) -> None:
        world.feed((16385).to_bytes(3) + bytes(5), step)
        assert not world.lines
        world.feed(b"\0")
        assert "a frame of 16385 bytes, at most 16384 are allowed" in world.refusals[0]

    in_world(test)


def test_headers_without_an_end() -> None:
    def test(world: World) -> None:
        block = encode_headers(HEADERS)
        world.feed(hyperframe.frame.HeadersFrame(1, block[:9]).serialize())
        world.feed(hyperframe.frame.ContinuationFrame(1, block[9:], flags=["END_HEADERS"]).serialize())
        world.feed(headers(300, stream=3) + continuation(700, stream=3))
        assert not world.lines
        # Its first bytes are enough.
        world.feed(continuation(1, stream=3)[:9])
        assert "headers of more than 1000 bytes" in world.refusals[0]

    in_world(test)


def test_empty_continuations_count() -> None:
    def test(world: World) -> None:
        world.feed(headers(300) + continuation(0) * 1000)
        assert "control frames a second" in world.refusals[0]

    in_world(test, FEW)


def test_rates_recover() -> None:
    clock = Clock()
    meter = FrameMeter(clock=clock)
    for _ in range(DEFAULT_RATES.resets):
        meter.count(Kind.RST_STREAM, 0, 1, 4)
    clock.now = 0.5
    for _ in range(DEFAULT_RATES.resets // 2):
        meter.count(Kind.RST_STREAM, 0, 1, 4)
    with pytest.raises(FloodError, match="cancelled calls"):
        meter.count(Kind.RST_STREAM, 0, 1, 4)


@pytest.mark.parametrize(
    "frame",
    [
        hyperframe.frame.PingFrame(0, bytes(8)).serialize(),
        hyperframe.frame.SettingsFrame(0).serialize(),
        hyperframe.frame.PriorityFrame(1, depends_on=3).serialize(),
        hyperframe.frame.DataFrame(1).serialize(),
        hyperframe.frame.WindowUpdateFrame(0, window_increment=1).serialize(),
        b"\0\0\1\xab\0\0\0\0\1x",
    ],
)
def test_floods(frame: bytes) -> None:
    # Answered by its headers, so that the rest of it is ignored.
    refused = hyperframe.frame.HeadersFrame(
        1, encode_headers(tuple({**dict(HEADERS), ":method": "GET"}.items())), flags=["END_HEADERS"]
    ).serialize()

    def test(world: World) -> None:
        world.feed(refused + frame * 40)
        assert not world.lines
        # Some of the time that has passed counts.
        world.feed(frame * 1000)
        assert "more than 50 control frames a second" in world.refusals[0]

    in_world(test, FEW)


def test_refused_calls_count_as_cancelled_ones() -> None:
    def test(world: World) -> None:
        begin = b"".join(headers(300, "END_HEADERS", stream=2 * number + 1) for number in range(450 + 250))
        world.feed(begin)
        assert len(world.connection.streams) == 250
        assert "cancelled calls a second" in world.refusals[0]

    in_world(test)


@pytest.mark.parametrize(
    "changes",
    [
        ((":path", ""),),
        ((":scheme", None),),
        ((":method", None),),
        ((":authority", None),),
        (("host", "b"),),
        ((":status", "200"),),
        (("x", "y"), (":late", "z")),
        (("connection", "close"),),
        (("transfer-encoding", "chunked"),),
        (("te", "gzip"),),
        (("X", "y"),),
        (("x y", "y"),),
        (("a:b", "y"),),
        (("x", "a\r\nb"),),
        (("x", "a\0b"),),
        (("x", " y"),),
        (("x", "y\t"),),
        (("", "y"),),
    ],
)
def test_headers_that_http2_forbids_end_the_connection(changes: tuple[tuple[str, str | None], ...]) -> None:
    values = dict[str, str | None](HEADERS) | dict(changes)
    block = encode_headers(tuple((key, value) for key, value in values.items() if value is not None))

    def test(world: World) -> None:
        world.feed(hyperframe.frame.HeadersFrame(1, block, flags=["END_HEADERS"]).serialize())
        assert world.refusals
        assert world.transport.closing

    in_world(test)


def test_data_beyond_the_windows_ends_the_connection() -> None:
    def test(world: World) -> None:
        data = hyperframe.frame.DataFrame(1, bytes(16383)).serialize()
        world.feed(headers(300, "END_HEADERS") + data * 4)
        assert not world.lines
        world.feed(data)
        assert "more data than the stream's window allows" in world.refusals[0]

    in_world(test)


def test_memory_of_requests_comes_back_with_their_end() -> None:
    async def run() -> None:
        world = World()
        world.feed(PREFACE)
        data = hyperframe.frame.DataFrame(1, b"\0\0\1\0\0".ljust(16000, b"x")).serialize()
        world.feed(headers(300, "END_HEADERS") + data * 4)
        with pytest.raises(RpcError):
            world.memory.take("b", 100_000)
        world.feed(hyperframe.frame.RstStreamFrame(1).serialize())
        async with asyncio.timeout(REAL_TIMEOUT):
            while world.connection.unused_since is None:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
        world.memory.take("b", 100_000)
        assert world.connection.unread == 0
        world.end()

    asyncio.run(run())


def test_settings_are_few() -> None:
    window = hyperframe.frame.SettingsFrame(0, settings={4: 100}).serialize()

    def test(world: World) -> None:
        world.feed(window * 1000)
        assert "more than 5 settings a second" in world.refusals[0]

    in_world(test, FEW)


def test_a_window_of_the_connection_wakes_streams_once_in_a_round() -> None:
    woken: list[int] = []

    def test(world: World) -> None:
        world.feed(headers(300, "END_HEADERS", stream=1) + headers(300, "END_HEADERS", stream=3))
        for number, stream in world.connection.streams.items():
            stream.wake_writer = lambda number=number: woken.append(number)
        world.feed(hyperframe.frame.WindowUpdateFrame(0, window_increment=1).serialize() * 100)
        assert not woken

    async def run() -> None:
        world = World()
        world.feed(PREFACE)
        test(world)
        await asyncio.sleep(0)
        assert woken == [1, 3]
        world.end()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_a_goaway_ends_no_open_call() -> None:
    def test(world: World) -> None:
        world.feed(headers(300, "END_HEADERS"))
        world.feed(hyperframe.frame.GoAwayFrame(0).serialize())
        assert len(world.connection.streams) == 1
        assert not world.transport.closing
        # There are no further ones.
        world.feed(headers(300, "END_HEADERS", stream=3))
        assert len(world.connection.streams) == 1

    in_world(test)


def test_a_reason_is_short_whatever_the_block_is() -> None:
    block = b"\0\x7f" + b"\xff" * 500

    def test(world: World) -> None:
        world.feed(hyperframe.frame.HeadersFrame(1, block, flags=["END_HEADERS"]).serialize())
        assert world.refusals == ["HTTP/2 protocol error: headers that can't be decoded: HPACKDecodingError"]
        assert max(map(len, world.lines)) < 500

    in_world(test)
