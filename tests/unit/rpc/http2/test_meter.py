"""Which frames count as ones that cost a peer next to nothing, and when there are too many."""

from contextlib import nullcontext

import pytest

from talos.rpc.http2.frames import END_HEADERS, END_STREAM, PADDED, Kind
from talos.rpc.http2.meter import MIN_DATA, FloodError, FrameMeter, FrameRates

NONE = FrameRates(resets=0, settings=0, control=0, small_data=0)


@pytest.mark.parametrize(
    ("kind", "flags", "number", "size", "counted"),
    [
        (Kind.DATA, END_STREAM, 1, 1, ""),
        (Kind.DATA, 0, 1, MIN_DATA, ""),
        (Kind.DATA, 0, 1, MIN_DATA - 1, "small frames of data"),
        (Kind.DATA, PADDED, 1, 16_384, "small frames of data"),
        (Kind.DATA, 0, 1, 0, "control frames"),
        (Kind.WINDOW_UPDATE, 0, 1, 4, ""),
        (Kind.WINDOW_UPDATE, 0, 0, 4, "control frames"),
        (Kind.HEADERS, 0, 1, 1, ""),
        (Kind.CONTINUATION, END_HEADERS, 1, 0, ""),
        (Kind.CONTINUATION, 0, 1, 0, "control frames"),
        (Kind.RST_STREAM, 0, 1, 4, "cancelled calls"),
        (Kind.SETTINGS, 0, 0, 6, "settings"),
        (Kind.SETTINGS, 0, 0, 0, "control frames"),
        (Kind.PING, 0, 0, 8, "control frames"),
    ],
)
def test_what_is_counted(kind: int, flags: int, number: int, size: int, counted: str) -> None:
    meter = FrameMeter(NONE)
    with pytest.raises(FloodError, match=f"more than 0 {counted} a second") if counted else nullcontext():
        meter.count(kind, flags, number, size)


def test_what_was_not_sent_in_a_second_is_not_kept() -> None:
    now = 0.0
    meter = FrameMeter(FrameRates(resets=4), clock=lambda: now)

    def count(number: int) -> None:
        for _ in range(number):
            meter.resets.count()
        with pytest.raises(FloodError, match="more than 4 cancelled calls a second"):
            meter.resets.count()

    meter.resets.count()
    now += 3600
    count(4)
    now += 0.75
    count(2)


def test_each_message_may_end_in_a_small_frame() -> None:
    meter = FrameMeter(FrameRates(small_data=2), clock=lambda: 0.0)
    for _ in range(10):
        meter.count(Kind.DATA, 0, 1, 16_384)
        meter.count(Kind.DATA, 0, 1, 5)
    meter.count(Kind.DATA, 0, 1, 1)
    with pytest.raises(FloodError, match="more than 2 small frames of data a second"):
        meter.count(Kind.DATA, 0, 1, 1)
