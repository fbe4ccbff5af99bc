"""Logs in memory, with a bound."""

from talos.machined.logs.ring import LogRing


def test_a_ring_forgets_the_oldest() -> None:
    ring = LogRing(capacity=100_000)
    for n in range(100_000):
        ring.append(b"line %d\n" % n)
    position, size = 0, 0
    while position < ring.end:
        chunk, position = ring.read(position)
        size += len(chunk)
    assert 100_000 <= size <= 100_000 + 2 * 16 * 1024
