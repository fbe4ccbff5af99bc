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


def test_what_is_encoded_is_decoded() -> None:
    headers = (*HEADERS, ("long", "z" * 300), ("latin", "\xfc"))
    assert HeaderDecoder(4096).decode(encode_headers(headers)) == headers
