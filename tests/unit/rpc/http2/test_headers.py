"""Blocks of headers that are looked up mean what they mean on their own connection."""

import hpack
import pytest

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
    with pytest.raises(hpack.InvalidTableIndex):
        decoder.decode(FROM_TABLE)


def test_what_is_encoded_is_decoded() -> None:
    headers = (*HEADERS, ("long", "z" * 300), ("latin", "\xfc"))
    assert HeaderDecoder(4096).decode(encode_headers(headers)) == headers
