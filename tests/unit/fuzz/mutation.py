"""Inputs made from good ones by mutation: bytes changed, cut, repeated, taken from another input."""

import random
from collections.abc import Iterator, Sequence

INTERESTING = (
    b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\n", b" ", b"\t", b'"', b"'", b"\\", b"[", b"]",
    b"{", b"}", b"(", b")", b"*", b"&", b"-", b":", b"<<: *a", b"%", b"$", b"9", b"-1", b"1e9999", b"0x",
    b"\xc3\x28", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"-----BEGIN CERTIFICATE-----",
)  # fmt: skip
MAX_INPUT = 64 * 1024
"""Bytes of an input; growth beyond it is cut."""


def mutate(dice: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One input."""
    data = bytearray(dice.choice(seeds))
    for _ in range(1 << dice.randrange(5)):
        place = dice.randrange(len(data) + 1)
        match dice.randrange(7):
            case 0 if data:
                data[place % len(data)] ^= 1 << dice.randrange(8)
            case 1:
                del data[place : place + (1 << dice.randrange(8))]
            case 2:
                data[place:place] = dice.choice(INTERESTING)
            case 3:
                data[place:place] = dice.randbytes(1 << dice.randrange(5))
            case 4:
                part = data[place : place + (1 << dice.randrange(7))]
                data[place:place] = part * (1 << dice.randrange(12))
            case 5:
                other = dice.choice(seeds)
                begin = dice.randrange(len(other) + 1)
                data[place:] = other[begin:]
            case _:
                del data[place:]
        del data[MAX_INPUT:]
    return bytes(data)


def inputs(seeds: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """The good inputs, then mutated ones without an end."""
    yield from seeds
    dice = random.Random(seed)
    while True:
        yield mutate(dice, seeds)
