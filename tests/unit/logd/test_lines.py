"""Lines as messages of the format json_lines."""

import json
from typing import Any

import pytest

from talos.api.internal.feed_pb2 import KernelRecord
from talos.logd.lines import make_kernel_message, make_note, make_service_message

NOW = 1_800_000_000.25
STAMP = "2027-01-15T08:00:00.25Z"


def read(line: str, **tags: str) -> dict[str, Any]:
    message = make_service_message("kubelet", line.encode(), NOW, tags)
    assert message is not None
    assert b"\n" not in message
    return json.loads(message)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("plain text", {"msg": "plain text"}),
        ("  { not json }  ", {"msg": "{ not json }"}),
        ('{"a":NaN}', {"msg": '{"a":NaN}'}),
        ('{"a":1e999}', {"msg": '{"a":1e999}'}),
        ('{"a":1} and more', {"msg": '{"a":1} and more'}),
        ('{"msg":"hi","n":1.5}', {"msg": "hi", "n": 1.5}),
        ('before {"msg":"after"}', {"msg": "before after"}),
        ('{"msg":"it fails","err":"no route"}', {"msg": "it fails: no route", "talos-level": "warn"}),
        ('{"msg":"x","err":"y","level":"error"}', {"msg": "x: y", "talos-level": "error"}),
        ('{"msg":"x","level":"WARNING"}', {"msg": "x", "talos-level": "warn"}),
        ('{"msg":"x","level":"loud"}', {"msg": "x", "level": "loud"}),
        ('{"msg":7}', {"msg": ""}),
        ('{"time":"2024-05-01T10:00:00.1200+02:00"}', {"msg": "", "talos-time": "2024-05-01T08:00:00.12Z"}),
        ('{"ts":1714550400.5}', {"msg": "", "talos-time": "2024-05-01T08:00:00.5Z"}),
        ('{"ts":1714550400500}', {"msg": "", "talos-time": "2024-05-01T08:00:00.5Z"}),
        ('{"time":"soon"}', {"msg": "", "time": "soon"}),
        ('{"ts":1e300}', {"msg": "", "ts": 1e300}),
        ("{" * 50_000 + "}", {"msg": "{" * 50_000 + "}"}),
    ],
)  # fmt: skip
def test_a_line_becomes_an_object(line: str, fields: dict[str, Any]) -> None:
    usual = {"talos-time": STAMP, "talos-level": "info", "talos-service": "kubelet"}
    assert read(line) == usual | fields


def test_an_empty_line_is_none() -> None:
    assert make_service_message("apid", b"  \t", NOW, {}) is None


def test_tags_are_set_last() -> None:
    assert read("x", node="a", msg="mine")["msg"] == "mine"
    assert read("x", node="a")["node"] == "a"


def test_bytes_that_are_no_text_are_replaced() -> None:
    message = make_service_message("apid", b'\xff {"a":"\\ud800"}', NOW, {})
    assert message is not None
    assert json.loads(message)["msg"] == "\ufffd"


def test_a_record_of_the_kernel_has_its_fields() -> None:
    record = KernelRecord(
        sequence=7, microseconds=1_500_000, facility="kern", priority="err", text="disk on fire"
    )
    assert json.loads(make_kernel_message(record, NOW)) == {
        "msg": "disk on fire",
        "talos-time": "2027-01-15T08:00:01.75Z",
        "talos-level": "error",
        "facility": "kern",
        "seq": 7,
        "clock": 1_500_000,
        "priority": "err",
    }


def test_a_note_is_a_warning() -> None:
    note = json.loads(make_note("3 lines are missing", NOW, {"talos-service": "apid"}))
    assert (note["talos-level"], note["talos-service"]) == ("warn", "apid")
