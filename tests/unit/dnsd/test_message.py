"""Replies of servers that break the rules of DNS."""

import struct

import pytest

from talos.dnsd.message import OPT, A, MalformedError, make_query, parse_query, parse_reply

QUERY = parse_query(struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b"\1a\0" + struct.pack("!HH", A, 1))
EDNS = b"\0" + struct.pack("!HHIH", OPT, 1232, 0, 0)
ADDRESS = b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 60, 4) + bytes(4)


@pytest.mark.parametrize(
    ("counts", "records"),
    [((1, 0, 0), EDNS), ((0, 1, 0), EDNS), ((0, 0, 2), EDNS + ADDRESS), ((1, 0, 1), EDNS + ADDRESS)],
)
def test_edns_anywhere_but_at_the_end_is_malformed(counts: tuple[int, int, int], records: bytes) -> None:
    head = struct.pack("!6H", 9, 0x8180, 1, *counts)
    with pytest.raises(MalformedError, match="EDNS is not the last additional record"):
        parse_reply(head + QUERY.question + records, QUERY, 9)


def test_edns_is_no_record_of_the_reply() -> None:
    assert make_query(QUERY, 9).endswith(EDNS)
    reply = parse_reply(struct.pack("!6H", 9, 0x8180, 1, 1, 0, 1) + QUERY.question + ADDRESS + EDNS, QUERY, 9)
    assert reply.data[12:] == QUERY.question + ADDRESS
    assert struct.unpack_from("!3H", reply.data, 6) == (1, 0, 0)
    assert reply.seconds == 60
