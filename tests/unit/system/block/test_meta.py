"""META's form: two copies, either of which will do, and the form of very old systems."""

import hashlib
import struct

import pytest

from talos.system.block.meta import COPY, is_meta, make_meta, parse_meta

AREA = COPY - 4 - 36
"""Bytes of a copy's records: without its magics and the digest."""
VALUES = {6: b"A", 10: b"network: {}", 0x0E: bytes(range(256)) * 8}
ADV_MAGICS = (0x5A2D2FA5, 0xA3041767, 0xDD28BF64)


def make_legacy(values: dict[int, bytes], *, cut: int = 0) -> bytes:
    """One copy; the last value's length is ``cut`` bytes too large."""
    begin, total, end = ADV_MAGICS
    records = bytearray(b"".join(bytes((tag, len(value))) + value for tag, value in values.items()))
    if cut:
        records[len(records) - len([*values.values()][-1]) - 1] += cut
    data = bytes(records).ljust(500, b"\0")
    checksum = (total - sum(struct.unpack("<125I", data))) & 0xFFFFFFFF
    return struct.pack("<II", begin, checksum) + data + struct.pack("<I", end)


def make_copy(records: bytes, begin: str = "5a4b3c2d", end: str = "a5b4c3d2", size: int = COPY) -> bytes:
    """A copy with a digest that fits, and with records of any kind."""
    body, tail = (bytes.fromhex(begin) + records).ljust(size - 36, b"\0"), bytes.fromhex(end)
    return body + hashlib.sha256(body + bytes(32) + bytes.fromhex("a5b4c3d2")).digest() + tail


def test_a_round_trip() -> None:
    data = make_meta(VALUES)
    assert len(data) == 2 * COPY
    assert data[:COPY] == data[COPY:]
    assert parse_meta(data) == VALUES
    assert is_meta(data)
    assert make_meta(dict(reversed(VALUES.items()))) == data


def test_the_form_is_upstreams() -> None:
    copy = bytearray(make_meta({10: b"xyz"})[:COPY])
    assert len(copy) == 256 * 1024
    assert copy[:4].hex() == "5a4b3c2d"
    assert copy[4:15] == bytes.fromhex("0000000a 00000003") + b"xyz"
    assert copy[-4:].hex() == "a5b4c3d2"
    digest, copy[-36:-4] = bytes(copy[-36:-4]), bytes(32)
    assert hashlib.sha256(copy).digest() == digest


@pytest.mark.parametrize("place", [0, 5, COPY // 2, COPY - 20, COPY - 1])
@pytest.mark.parametrize("copy", [0, 1])
def test_either_copy_will_do(place: int, copy: int) -> None:
    new, data = make_meta({6: b"B"}), bytearray(make_meta(VALUES))
    # The first copy was being written when the power went, or the second one was.
    data[: COPY + place if copy else place] = new[: COPY + place if copy else place]
    assert parse_meta(bytes(data)) in (VALUES, {6: b"B"})
    data[copy * COPY + place] ^= 1
    assert parse_meta(bytes(data)) in (VALUES, {6: b"B"})


@pytest.mark.parametrize("data", [b"", bytes(1 << 20), make_meta(VALUES)[: COPY - 1]])
def test_nothing_is_nothing(data: bytes) -> None:
    assert is_meta(data) is False
    with pytest.raises(ValueError, match="no whole copy"):
        parse_meta(data)


def test_too_much() -> None:
    with pytest.raises(ValueError, match=r"need 300008 bytes, there is room for \d+"):
        make_meta({1: bytes(300_000)})


def test_values_may_fill_a_copy() -> None:
    largest = {1: b"x" * (AREA - 2 * 8)}  # its own head, and that of the last record
    assert parse_meta(make_meta(largest)) == largest
    with pytest.raises(ValueError, match=rf"need {AREA - 7} bytes, there is room for {AREA - 8}"):
        make_meta({1: b"x" * (AREA - 15)})


def test_a_record_that_is_longer_than_its_copy_is_the_last() -> None:
    first, size = struct.pack(">II", 1, 1) + b"a", AREA - 9 - 8
    assert parse_meta(make_copy(first + struct.pack(">II", 2, size) + b"x" * size)) == {
        1: b"a",
        2: b"x" * size,
    }
    assert parse_meta(make_copy(first + struct.pack(">II", 2, size + 1) + b"x" * size)) == {1: b"a"}
    assert parse_meta(make_copy(first + struct.pack(">II", 2, 0xFFFFFFFF))) == {1: b"a"}


def test_a_record_without_a_value_may_be_the_last_bytes_of_a_copy() -> None:
    first = struct.pack(">II", 1, AREA - 2 * 8) + b"x" * (AREA - 2 * 8)
    for size, values in ((0, {2: b""}), (1, {})):
        records = first + struct.pack(">II", 2, size)
        assert len(records) == AREA
        assert parse_meta(make_copy(records)) == {1: b"x" * (AREA - 2 * 8)} | values


def test_a_copy_needs_its_size_and_both_magics_besides_its_digest() -> None:
    record = struct.pack(">II", 1, 1) + b"a"
    assert is_meta(make_copy(record))
    assert not is_meta(make_copy(record, begin="5a4b3c2e"))
    assert not is_meta(make_copy(record, end="a5b4c3d3"))
    assert not is_meta(make_copy(record, size=COPY - 1))
    old = bytearray(bytes(1 << 20) + make_legacy({6: b"A"}))
    for place in (-512, -1):  # the sum is of neither
        damaged = old.copy()
        damaged[place] ^= 1
        assert not is_meta(bytes(damaged))
    assert not is_meta(struct.pack("<II", ADV_MAGICS[0], ADV_MAGICS[2]))


def test_the_same_of_very_old_systems() -> None:
    values = {6: b"x" * 255, 7: b"y" * 241}
    empty = bytes(1 << 20)
    assert parse_meta(empty + make_legacy(values)) == values
    assert parse_meta(empty + make_legacy(values, cut=1)) == {6: values[6]}
    full = {6: b"x" * 255, 7: b"y" * 239, 8: b""}
    assert parse_meta(empty + make_legacy(full)) == full
    assert parse_meta(empty + make_legacy(full, cut=1)) == {6: full[6], 7: full[7]}


@pytest.mark.parametrize("copy", [0, 1])
def test_what_very_old_systems_left(copy: int) -> None:
    values = {6: b"A", 10: b"old"}
    partition = bytearray(1 << 20)
    start = len(partition) - 512 * (2 - copy)
    partition[start : start + 512] = make_legacy(values)
    assert len(partition) == 1 << 20
    assert parse_meta(bytes(partition)) == values
    partition[start + 9] ^= 1
    assert not is_meta(bytes(partition))
    partition[: 2 * COPY] = make_meta(VALUES)
    assert parse_meta(bytes(partition)) == VALUES
