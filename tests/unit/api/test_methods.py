"""What the table has of a method, and what holds for one that is not in it."""

import pytest

from talos.api.methods import (
    DEFAULT_REPLY,
    DEFAULT_REQUEST,
    StreamKind,
    max_reply,
    max_request,
    methods,
    split_path,
    stream_kind,
    streams_replies,
)
from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table


def test_replies_of_a_stream_are_passed_on_one_by_one() -> None:
    rows = {row["method"]: row["stream"] for row in read_table("roles.tsv")}
    assert {path for path in rows if streams_replies(path)} == {
        path for path, stream in rows.items() if stream in {"server", "bidi"}
    }


@pytest.mark.parametrize(("path", "streams"), [("/a.B/LogsStream", True), ("/a.B/Logs", False)])
def test_an_unknown_method_may_be_of_any_kind(path: str, *, streams: bool) -> None:
    assert path not in methods()
    assert stream_kind(path) is StreamKind.BOTH
    assert streams_replies(path) is streams
    assert (max_request(path), max_reply(path)) == (DEFAULT_REQUEST, DEFAULT_REPLY) == (256 << 10, 2 << 20)


def test_a_known_method_is_as_its_tables_have_it() -> None:
    streams = {row["method"]: row["stream"] for row in read_table("roles.tsv")}
    assert {path: stream_kind(path).value for path in streams} == streams
    for table, column, find in (
        ("requests.tsv", "max_request", max_request),
        ("replies.tsv", "max_reply", max_reply),
    ):
        sizes = {row["method"]: int(row[column]) for row in read_table(table)}
        assert {path: find(path) for path in sizes} == sizes


def test_a_path_has_a_service_and_a_method() -> None:
    assert split_path("/machine.MachineService/Version") == ("machine.MachineService", "Version")


@pytest.mark.parametrize("path", ["", "/", "x", "/x", "x/y", "/a/b/c", "//", "//x", "/x/", "x/y/z"])
def test_malformed_paths(path: str) -> None:
    with pytest.raises(RpcError, match="malformed method name") as caught:
        split_path(path)
    assert caught.value.code is Code.UNIMPLEMENTED
