"""Calls of the API are lines in machined's log."""

import json
from typing import Any

import pytest

from talos.api.rpc import Code
from talos.machined.api.call_log import BURST, PER_SECOND, CallLog, format_code
from talos.machined.logs.store import LogStore
from talos.rpc.handlers import CallEnd
from talos.rpc.protocol import OK, Status


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


async def read(logs: LogStore) -> list[dict[str, Any]]:
    async with logs.read("machined") as chunks:
        text = b"".join([chunk async for chunk in chunks])
    return [json.loads(line) for line in text.splitlines()]


async def test_a_call_is_a_line_in_upstreams_form() -> None:
    logs = LogStore()
    calls = CallLog(logs)
    calls.record(make_end())
    failed = Status(code=Code.NOT_FOUND, message="no such file")
    calls.record(make_end(streams=True, status=failed, metadata=[], seconds=2.5))
    first, second = await read(logs)
    assert first["msg"] == (
        "OK [/machine.MachineService/Version] 1.5ms unary Success "
        "(authorization=<hidden>;nodes=a,b?;peer=10.5.0.1;talos-role=os:admin;token=<hidden>)"
    )
    assert second["msg"] == "NotFound [/machine.MachineService/Version] 2.5s stream no such file ()"


async def test_of_a_flood_a_part_is_logged_and_the_rest_counted() -> None:
    logs, now = LogStore(), 0.0
    calls = CallLog(logs, clock=lambda: now)
    for _ in range(BURST + 5):
        calls.record(make_end())
    now = 1 / PER_SECOND
    calls.record(make_end())
    found = await read(logs)
    assert len(found) == BURST + 1
    assert found[-1]["left_out"] == 5


async def test_a_line_is_short_whatever_a_client_sends() -> None:
    logs = LogStore()
    CallLog(logs).record(make_end(metadata=[(f"x-{number}", "a" * 1000) for number in range(1000)]))
    (line,) = await read(logs)
    assert len(line["msg"]) < 1200


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "OK"), (Code.CANCELLED, "Canceled"), (Code.DATA_LOSS, "DataLoss"), (99, "Code(99)")],
)
def test_codes_read_as_in_go(code: int, text: str) -> None:
    assert format_code(code) == text
