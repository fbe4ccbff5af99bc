"""Frames are measured as they arrive, however they are cut."""

import itertools

import hyperframe.frame
import pytest

from talos.rpc.port.frames import FloodError, FrameMeter
from talos.rpc.port.limits import CONTROL_FRAMES_PER_SECOND, RESETS_PER_SECOND

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make_meter(clock: Clock | None = None) -> FrameMeter:
    meter = FrameMeter(1000, clock or Clock())
    meter.feed(PREFACE)
    return meter


def headers(size: int, *flags: str) -> bytes:
    return hyperframe.frame.HeadersFrame(1, bytes(size), flags=flags).serialize()


def continuation(size: int, *flags: str) -> bytes:
    return hyperframe.frame.ContinuationFrame(1, bytes(size), flags=flags).serialize()


@pytest.mark.parametrize("step", [1, 2, 8, 9, 10, 33, 5000])
def test_what_is_allowed_in_pieces_of_any_size(step: int) -> None:
    data = (
        PREFACE + (headers(900, "END_HEADERS") + hyperframe.frame.DataFrame(1, bytes(16384)).serialize()) * 3
    )
    meter = FrameMeter(1000, Clock())
    for piece in itertools.batched(data, step, strict=False):
        meter.feed(bytes(piece))
    with pytest.raises(FloodError, match="headers of more than 1000 bytes"):
        meter.feed(headers(900) + continuation(101))


@pytest.mark.parametrize("step", [1, 4, 9])
def test_a_frame_is_refused_by_its_announced_length(step: int) -> None:
    meter = make_meter()
    *first, last = itertools.batched((16385).to_bytes(3) + bytes(6), step, strict=False)
    for piece in first:
        meter.feed(bytes(piece))
    with pytest.raises(FloodError, match="a frame of 16385 bytes"):
        meter.feed(bytes(last))


def test_headers_without_an_end() -> None:
    meter = make_meter()
    meter.feed(headers(400) + continuation(600, "END_HEADERS") + headers(400) + continuation(600))
    with pytest.raises(FloodError):
        meter.feed(continuation(1))


def test_empty_continuations_count() -> None:
    meter = make_meter()
    with pytest.raises(FloodError, match="control frames"):
        meter.feed(headers(1) + continuation(0) * (CONTROL_FRAMES_PER_SECOND + 1))


def test_rates_recover() -> None:
    clock = Clock()
    meter = make_meter(clock)
    reset = hyperframe.frame.RstStreamFrame(1).serialize()
    meter.feed(reset * RESETS_PER_SECOND)
    clock.now = 0.5
    meter.feed(reset * (RESETS_PER_SECOND // 2))
    with pytest.raises(FloodError, match="cancelled calls"):
        meter.feed(reset)


@pytest.mark.parametrize(
    "frame",
    [
        hyperframe.frame.PingFrame(0, bytes(8)).serialize(),
        hyperframe.frame.SettingsFrame(0).serialize(),
        hyperframe.frame.PriorityFrame(1, depends_on=3).serialize(),
        hyperframe.frame.DataFrame(1).serialize(),
        b"\0\0\1\xab\0\0\0\0\1x",
    ],
)
def test_floods(frame: bytes) -> None:
    meter = make_meter()
    meter.feed(frame * CONTROL_FRAMES_PER_SECOND)
    with pytest.raises(FloodError, match="control frames"):
        meter.feed(frame)
