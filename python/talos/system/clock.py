"""The system clock behind a port: read, set, disciplined by the kernel's phase-locked loop; PTP clocks."""

import ctypes
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, override

# linux/timex.h
_ADJ_OFFSET = 0x0001
_ADJ_MAXERROR = 0x0004
_ADJ_ESTERROR = 0x0008
_ADJ_STATUS = 0x0010
_ADJ_TIMECONST = 0x0020
_ADJ_SETOFFSET = 0x0100
_ADJ_NANO = 0x2000
_STA_PLL = 0x0001
_STA_INS = 0x0010
_STA_DEL = 0x0020
_STA_UNSYNC = 0x0040
_STA_NANO = 0x2000
_TIME_ERROR = 5
_STATUS_NAMES = (
    "PLL", "PPSFREQ", "PPSTIME", "FLL", "INS", "DEL", "UNSYNC", "FREQHOLD",
    "PPSSIGNAL", "PPSJITTER", "PPSWANDER", "PPSERROR", "CLOCKERR", "NANO", "MODE", "CLK",
)  # fmt: skip
_STATE_NAMES = ("TIME_OK", "TIME_INS", "TIME_DEL", "TIME_OOP", "TIME_WAIT", "TIME_ERROR")
_FREQUENCY_SCALE = 65_536 * 1_000_000
"""The kernel's frequency is in parts per million with 16 binary places."""
MAX_SLEW = 0.5
"""Seconds: the kernel's loop clamps a larger offset."""
_NANO = 1_000_000_000
_MICRO = 1_000_000


class Leap(IntEnum):
    """What the last minute of the day will be, as RFC 5905 numbers it."""

    NONE = 0
    INSERT = 1
    DELETE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjtime:
    """State of the kernel's clock discipline. Times in seconds."""

    offset: float
    frequency_ratio: float
    """How fast the clock is let run; 1 is as fast as its oscillator."""
    max_error: float
    est_error: float
    status: str
    """Names of the status bits, joined by `` | ``."""
    constant: int
    synced: bool
    state: str


class Clock(Protocol):
    """The clock that the whole node reads."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def step(self, offset: float) -> None:
        """Add ``offset`` seconds at once. OSError."""
        ...

    def slew(self, offset: float, *, constant: int, error: float, leap: Leap) -> None:
        """Have the kernel remove ``offset`` seconds gradually, and take the clock for synchronized.

        ``constant`` is log2 of the loop's time constant in seconds, 0 to 10; ``error`` the greatest error in
        seconds. OSError.
        """
        ...

    def read(self) -> Adjtime:
        """State of the discipline. OSError."""
        ...


class _Timex(ctypes.Structure):
    """``struct timex`` of a 64 bit Linux."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("fraction", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def _adjtimex(timex: _Timex) -> int:
    state = _libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "adjtimex")
    return state


class KernelClock(Clock):
    """The kernel's clock; changing it needs CAP_SYS_TIME.

    As soon as it is synchronized, the kernel copies it to the hardware clock: at once after a step, then
    every 11 minutes (``CONFIG_RTC_SYSTOHC``).
    """

    @override
    def now(self) -> float:
        return time.time()

    @override
    def step(self, offset: float) -> None:
        total = round(offset * _NANO)
        _adjtimex(
            # The fraction must not be negative: seconds are rounded down.
            _Timex(modes=_ADJ_SETOFFSET | _ADJ_NANO, seconds=total // _NANO, fraction=total % _NANO)
        )

    @override
    def slew(self, offset: float, *, constant: int, error: float, leap: Leap) -> None:
        flags = {Leap.NONE: 0, Leap.INSERT: _STA_INS, Leap.DELETE: _STA_DEL}[leap]
        _adjtimex(
            _Timex(
                modes=_ADJ_OFFSET | _ADJ_NANO | _ADJ_STATUS | _ADJ_TIMECONST | _ADJ_MAXERROR | _ADJ_ESTERROR,
                status=_STA_PLL | flags,
                offset=round(max(-MAX_SLEW, min(offset, MAX_SLEW)) * _NANO),
                constant=constant,
                maxerror=round(error * _MICRO),
                esterror=round(abs(offset) * _MICRO),
            )
        )

    @override
    def read(self) -> Adjtime:
        timex = _Timex(modes=0)
        state = _adjtimex(timex)
        unit = _NANO if timex.status & _STA_NANO else _MICRO
        bits = [name for bit, name in enumerate(_STATUS_NAMES) if timex.status & 1 << bit]
        return Adjtime(
            offset=timex.offset / unit,
            frequency_ratio=1 + timex.freq / _FREQUENCY_SCALE,
            max_error=timex.maxerror / _MICRO,
            est_error=timex.esterror / _MICRO,
            status=" | ".join(bits),
            constant=timex.constant,
            synced=not timex.status & _STA_UNSYNC and state != _TIME_ERROR,
            state=_STATE_NAMES[state] if state < len(_STATE_NAMES) else str(state),
        )


@contextmanager
def open_ptp(device: str) -> Generator[int]:
    """The id of a PTP device's clock, to be read with :func:`read_ptp` while the context lasts. OSError."""
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield ~fd << 3 | 3  # FD_TO_CLOCKID of linux/posix-timers.h
    finally:
        os.close(fd)


def read_ptp(clock: int) -> tuple[float, float]:
    """How much a PTP clock is ahead of the system clock, and the longest error of the reading, in seconds.

    Of several readings the one that took least counts. OSError.
    """
    return min((_compare(clock) for _ in range(5)), key=lambda reading: reading[1])


def _compare(clock: int) -> tuple[float, float]:
    before = time.clock_gettime_ns(time.CLOCK_REALTIME)
    remote = time.clock_gettime_ns(clock)
    after = time.clock_gettime_ns(time.CLOCK_REALTIME)
    return (remote - (before + after) / 2) / _NANO, (after - before) / 2 / _NANO
