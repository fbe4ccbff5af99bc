"""Merging replies without their schema, against messages that have one."""

import pytest

from talos.api.common import common_pb2 as common
from talos.api.google.rpc import status_pb2
from talos.api.machine import machine_pb2 as machine
from talos.apid.wire import (
    MergeError,
    error_text,
    make_error_frame,
    make_error_reply,
    mark_frame,
    mark_reply,
)
from talos.rpc.protocol import Status


def version(tag: str, count: int = 1) -> bytes:
    reply = machine.VersionResponse()
    for number in range(count):
        reply.messages.add().version.tag = f"{tag}{number}"
    return reply.SerializeToString()


def test_replies_are_marked_and_joined() -> None:
    failed = make_error_reply(Status(code=14, message="gone"), "c")
    merged = mark_reply(version("a"), "a") + mark_reply(version("b" * 300), "b") + failed
    messages = machine.VersionResponse.FromString(merged).messages
    assert [message.metadata.hostname for message in messages] == ["a", "b", "c"]
    assert messages[1].version.tag == "b" * 300 + "0"
    assert messages[2].metadata.error == "rpc error: code = Unavailable desc = gone"
    assert messages[2].metadata.status.code == 14


def test_the_first_element_is_marked() -> None:
    messages = machine.VersionResponse.FromString(mark_reply(version("a", 3), "n")).messages
    assert [message.metadata.hostname for message in messages] == ["n", "", ""]
    assert [message.version.tag for message in messages] == ["a0", "a1", "a2"]


def test_metadata_that_is_there_is_completed() -> None:
    reply = machine.VersionResponse()
    reply.messages.add().metadata.CopyFrom(common.Metadata(hostname="old", error="kept"))
    (message,) = machine.VersionResponse.FromString(mark_reply(reply.SerializeToString(), "new")).messages
    assert (message.metadata.hostname, message.metadata.error) == ("new", "kept")


def test_an_empty_reply_becomes_an_element() -> None:
    (message,) = machine.VersionResponse.FromString(mark_reply(b"", "n")).messages
    assert message.metadata.hostname == "n"


@pytest.mark.parametrize(
    "reply", [b"\x12\x01x", b"\x0a", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
)
def test_what_can_not_be_merged(reply: bytes) -> None:
    with pytest.raises(MergeError):
        mark_reply(reply, "n")


def test_frames() -> None:
    frame = common.Data.FromString(mark_frame(common.Data(bytes=b"x").SerializeToString(), "n"))
    assert (frame.metadata.hostname, frame.bytes) == ("n", b"x")
    assert common.Data.FromString(mark_frame(b"", "n")).metadata.hostname == "n"


def test_a_failure_keeps_its_details() -> None:
    packed = status_pb2.Status(code=5, message="m")
    packed.details.add(type_url="x/y", value=b"z")
    status = Status(code=5, message="m", trailers=(("grpc-status-details-bin", packed.SerializeToString()),))
    frame = common.Data.FromString(make_error_frame(status, "n"))
    assert frame.metadata.status == packed


@pytest.mark.parametrize(
    ("code", "name"),
    [(1, "Canceled"), (7, "PermissionDenied"), (13, "Internal"), (0, "OK"), (99, "Code(99)")],
)
def test_error_texts(code: int, name: str) -> None:
    assert error_text(Status(code=code, message="m")) == f"rpc error: code = {name} desc = m"


def test_details_that_are_none_are_left_out() -> None:
    status = Status(code=5, message="gone", trailers=(("grpc-status-details-bin", b"\xff\xff"),))
    frame = make_error_frame(status, "c")
    message = machine.VersionResponse.FromString(make_error_reply(status, "c")).messages[0]
    assert message.metadata.SerializeToString() in frame
    assert message.metadata.status == status_pb2.Status(code=5, message="gone")
