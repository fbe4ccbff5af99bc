"""AS_PATH: the autonomous systems that a route has come through (RFC 4271, RFC 6793, RFC 7606)."""

import struct
from dataclasses import dataclass

AS_SET, AS_SEQUENCE = 1, 2
AS_TRANS = 23456
"""Stands for a number of four bytes where two are expected (RFC 6793)."""
MAX_SEGMENT = 255
MAX_LENGTH = 255
"""Autonomous systems of a path that is taken; the Internet's longest have some dozens."""


class AsPathError(ValueError):
    """A malformed path, or one that is not allowed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a path: numbers in their order, or a set of them."""

    kind: int
    numbers: tuple[int, ...]


type AsPath = tuple[Segment, ...]


def parse_as_path(data: bytes, width: int) -> AsPath:
    """A path with numbers of ``width`` bytes, 2 or 4; AsPathError."""
    segments: list[Segment] = []
    place = count = 0
    while place < len(data):
        if place + 2 > len(data):
            raise AsPathError("a segment without its length")
        kind, size = data[place], data[place + 1]
        end = place + 2 + size * width
        # Segments of confederations come from within one only.
        if kind not in {AS_SET, AS_SEQUENCE} or not size or end > len(data):
            raise AsPathError(f"a segment of type {kind} with {size} numbers")
        numbers = struct.unpack_from(f">{size}{'H' if width == 2 else 'I'}", data, place + 2)
        if 0 in numbers:
            raise AsPathError("number 0")  # RFC 7607
        segments.append(Segment(kind, numbers))
        count += size
        place = end
    if count > MAX_LENGTH:
        raise AsPathError(f"{count} numbers, {MAX_LENGTH} are taken")
    return tuple(segments)


def format_as_path(path: AsPath, width: int) -> bytes:
    """A path with numbers of ``width`` bytes; those too large for 2 become AS_TRANS."""
    parts: list[bytes] = []
    for segment in path:
        numbers = segment.numbers
        if width == 2:
            numbers = tuple(number if number < 1 << 16 else AS_TRANS for number in numbers)
        parts.append(
            struct.pack(
                f">BB{len(numbers)}{'H' if width == 2 else 'I'}", segment.kind, len(numbers), *numbers
            )
        )
    return b"".join(parts)


def measure(path: AsPath) -> int:
    """The length by which paths are compared: a set counts as one (RFC 4271, section 9.1.2.2)."""
    return sum(1 if segment.kind == AS_SET else len(segment.numbers) for segment in path)


def contains(path: AsPath, *numbers: int) -> bool:
    """Whether a path has one of these numbers."""
    return any(number in segment.numbers for segment in path for number in numbers)


def find_neighbor(path: AsPath) -> int:
    """The autonomous system that the route comes from, 0 for the own one: only its MEDs compare."""
    return path[0].numbers[0] if path and path[0].kind == AS_SEQUENCE else 0


def prepend(path: AsPath, number: int) -> AsPath:
    """The path as it is with one more autonomous system in front."""
    if path and path[0].kind == AS_SEQUENCE and len(path[0].numbers) < MAX_SEGMENT:
        return (Segment(AS_SEQUENCE, (number, *path[0].numbers)), *path[1:])
    return (Segment(AS_SEQUENCE, (number,)), *path)


def replace(path: AsPath, old: int, new: int) -> AsPath:
    """The path with one number in the place of another."""
    if not contains(path, old):
        return path
    return tuple(
        Segment(segment.kind, tuple(new if number == old else number for number in segment.numbers))
        for segment in path
    )


def merge_as4(path: AsPath, path4: AsPath) -> AsPath:
    """What a speaker of two bytes has passed on in AS_PATH and AS4_PATH, as one (RFC 6793, section 4.2.3)."""
    missing = measure(path) - measure(path4)
    if missing < 0:
        return path
    head: list[Segment] = []
    for segment in path:
        if missing <= 0:
            break
        if segment.kind == AS_SET:
            head.append(segment)
            missing -= 1
        else:
            head.append(Segment(AS_SEQUENCE, segment.numbers[:missing]))
            missing -= len(segment.numbers[:missing])
    return (*head, *path4)
