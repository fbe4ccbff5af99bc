"""Blocks of headers that are looked up mean what they mean on their own connection."""

import pytest

from talos.rpc.http2.frames import CompressionError
from talos.rpc.http2.headers import NO_TABLE, HeaderDecoder, encode_headers

HEADERS = ((":method", "POST"), (":path", "/a.B/C"), ("x", "y"))
INDEXED = b"\x83\x44\x06/a.B/C\x40\x01x\x01y"
"""The same, and the last two are to be put into the table."""
FROM_TABLE = b"\x83\xbf\xbe"
"""The same, where they are in it."""


@pytest.mark.parametrize("before", [0, 3])
def test_a_block_is_not_looked_up_where_it_changes_the_table(before: int) -> None:
    for _ in range(before):  # a connection without a table, where such a block is remembered
        decoder = HeaderDecoder(4096)
        assert decoder.decode(NO_TABLE + INDEXED) == HEADERS
        assert decoder.decode(INDEXED) == decoder.decode(INDEXED) == HEADERS
    decoder = HeaderDecoder(4096)
    assert decoder.decode(INDEXED) == HEADERS
    assert decoder.decode(FROM_TABLE) == HEADERS


def test_a_block_that_begins_with_a_new_table_is_not_looked_up() -> None:
    for _ in range(2):
        decoder = HeaderDecoder(4096)
        assert decoder.decode(NO_TABLE + b"\x83") == HEADERS[:1]
        assert decoder.decode(b"\x3f\xe1\x1f" + INDEXED) == HEADERS
        assert decoder.decode(FROM_TABLE) == HEADERS


def test_a_block_may_be_empty() -> None:
    decoder = HeaderDecoder(4096)
    decoder.drop_table()
    assert decoder.decode(b"") == ()


def test_a_table_that_was_given_up_has_nothing() -> None:
    decoder = HeaderDecoder(4096)
    decoder.decode(INDEXED)
    assert decoder.decode(NO_TABLE + INDEXED) == HEADERS
    with pytest.raises(CompressionError, match="InvalidTableIndex"):
        decoder.decode(FROM_TABLE)


def test_a_table_is_given_up_once_that_is_agreed() -> None:
    decoder = HeaderDecoder(4096)
    decoder.decode(INDEXED)
    decoder.drop_table()
    with pytest.raises(CompressionError, match="InvalidTableSize"):
        decoder.decode(INDEXED)


def test_who_has_put_nothing_into_the_table_need_not_give_it_up() -> None:
    decoder = HeaderDecoder(4096)
    decoder.drop_table()
    assert decoder.decode(INDEXED) == HEADERS
    with pytest.raises(CompressionError, match="InvalidTableIndex"):
        decoder.decode(FROM_TABLE)


def test_an_error_has_nothing_of_the_block() -> None:
    with pytest.raises(CompressionError) as caught:
        HeaderDecoder(1 << 20).decode(b"\0\x7f" + b"\xff" * 60_000)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("size", [0, 126, 127, 128, 254, 255, 300, 127 + (1 << 14)])
def test_what_is_encoded_is_decoded(size: int) -> None:
    headers = (*HEADERS, ("long", "z" * size), ("latin", "\xfc"))
    assert HeaderDecoder(1 << 15).decode(encode_headers(headers)) == headers


@pytest.mark.parametrize(("size", "is_remembered"), [(2015, True), (2016, False)])
def test_lists_are_remembered_up_to_2_kib_as_hpack_counts(size: int, *, is_remembered: bool) -> None:
    headers, decoder = (("a", "z" * size),), HeaderDecoder(4096)
    decoder.drop_table()
    block = encode_headers(headers)
    assert (encode_headers(headers) is block) == is_remembered
    assert (decoder.decode(block) is decoder.decode(block)) == is_remembered


def test_lists_are_forgotten_when_there_are_many() -> None:
    block = encode_headers(HEADERS)
    assert encode_headers(HEADERS) is block
    for number in range(512):
        encode_headers((("number", f"{number}"),))
    assert encode_headers(HEADERS) is not block
