"""Calls of the API are lines in a log."""

import json
from typing import Any

import pytest

from talos.api.rpc import Code
from talos.process.call_log import (
    BURST,
    MAX_FIELD,
    MAX_METADATA,
    PER_SECOND,
    CallLog,
    format_call,
    format_code,
)
from talos.rpc.handlers import CallEnd
from talos.rpc.protocol import OK, Status
from talos.system.logging import Log


def make_end(**changes: Any) -> CallEnd:
    values: dict[str, Any] = {
        "method": "/machine.MachineService/Version",
        "streams": False,
        "status": OK,
        "seconds": 0.0015,
        "metadata": [
            ("talos-role", "os:admin"),
            ("talos-caller", "10.5.0.1"),
            ("talos-reached", "10.5.0.2"),
            ("nodes", "a"),
            ("nodes", "b\n"),
            ("token", "secret"),
            ("authorization", "Basic c2VjcmV0"),
            ("x-bin", b"\0"),
        ],
    }
    return CallEnd(**{**values, **changes})


def read(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_a_call_is_a_line_in_upstreams_form() -> None:
    lines: list[str] = []
    calls = CallLog(Log(write=lines.append))
    calls.record(make_end())
    failed = Status(code=Code.NOT_FOUND, message="no such file")
    calls.record(make_end(streams=True, status=failed, metadata=[], seconds=2.5))
    first, second = read(lines)
    assert first["msg"] == (
        "OK [/machine.MachineService/Version] 1.5ms unary Success "
        "(authorization=<hidden>;nodes=a,b?;peer=10.5.0.1;talos-role=os:admin;token=<hidden>)"
    )
    assert second["msg"] == "NotFound [/machine.MachineService/Version] 2.5s stream no such file ()"


def test_what_a_client_names_is_short_and_printable() -> None:
    named = "/x\n\x9b2J\u202e" + "y" * 5000
    text = format_call(make_end(method=named, metadata=[(named, named)] * 50))
    assert text.startswith("OK [/x??2J?yyy")
    assert text.isprintable()
    assert len(text) < MAX_METADATA + 2 * MAX_FIELD


def test_of_a_flood_a_part_is_logged_and_the_rest_counted() -> None:
    lines: list[str] = []
    now = 0.0
    calls = CallLog(Log(write=lines.append), clock=lambda: now)
    for _ in range(BURST + 5):
        calls.record(make_end())
    now = 1 / PER_SECOND
    calls.record(make_end())
    found = read(lines)
    assert len(found) == BURST + 1
    assert found[-1]["left_out"] == 5


def test_a_line_is_short_whatever_a_client_sends() -> None:
    lines: list[str] = []
    CallLog(Log(write=lines.append)).record(
        make_end(metadata=[(f"x-{number}", "a" * 1000) for number in range(1000)])
    )
    (line,) = read(lines)
    assert len(line["msg"]) < 1200


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "OK"), (Code.CANCELLED, "Canceled"), (Code.DATA_LOSS, "DataLoss"), (99, "Code(99)")],
)
def test_codes_read_as_in_go(code: int, text: str) -> None:
    assert format_code(code) == text
