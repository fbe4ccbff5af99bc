"""Logs in memory, with a bound."""

import tracemalloc

import pytest

from talos.machined.logs.ring import CHUNK, LogRing


def read_from(ring: LogRing, position: int) -> bytes:
    parts: list[bytes] = []
    while position < ring.end:
        part, position = ring.read(position)
        parts.append(part)
    return b"".join(parts)


def test_a_ring_forgets_the_oldest() -> None:
    ring = LogRing(capacity=100_000)
    for n in range(100_000):
        ring.append(b"line %d\n" % n)
    held = read_from(ring, 0)
    assert 100_000 <= len(held) <= 100_000 + 2 * CHUNK
    assert held.endswith(b"line 99999\n")
    assert b"".join(ring.chunks()) == held
    assert ring.dropped_lines == int(held.split(maxsplit=2)[1])


@pytest.mark.parametrize("lines", [0, 1, 2, 700, 5_000, 9_999, 10_000, 20_000])
def test_the_last_lines_are_found_in_all_chunks(lines: int) -> None:
    ring = LogRing()
    every = [b"line %d\n" % n for n in range(10_000)]
    for line in every:
        ring.append(line)
    assert read_from(ring, ring.tail(lines)) == b"".join(every[len(every) - min(lines, len(every)) :])


def test_what_it_holds_takes_a_quarter_of_the_memory() -> None:
    tracemalloc.start()
    ring = LogRing()
    for n in range(20_000):
        ring.append(
            b'{"ts":%d,"level":"info","msg":"synced","pod":"kube-system/kube-proxy-%d"}\n' % (n, n % 9)
        )
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ring.end - ring.start >= 1_000_000
    assert used < 250_000
