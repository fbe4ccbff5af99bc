"""Event ids: xids, 12 bytes that sort by time, written in base32 with the digits 0-9a-v."""

import itertools
import os
import time

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


class XidGenerator:
    """Seconds (4 bytes), a random machine id (3), the process id (2), a counter (3)."""

    def __init__(self) -> None:
        self._middle = os.urandom(3) + (os.getpid() & 0xFFFF).to_bytes(2)
        self._counter = itertools.count(int.from_bytes(os.urandom(2)))

    def make(self, now: float | None = None) -> str:
        """The next id; ``now`` in seconds since the epoch."""
        seconds = int(time.time() if now is None else now)
        number = next(self._counter) & 0xFFFFFF
        return encode(seconds.to_bytes(4) + self._middle + number.to_bytes(3))


def encode(raw: bytes) -> str:
    """The 20 characters for 12 bytes."""
    number = int.from_bytes(raw) << 4  # 96 bits, padded to 100
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(95, -1, -5))
