"""Log lines on the console."""

import json

from talos.machined.logs.console import CONTROLLERS, format_for_console, make_sink
from talos.machined.logs.store import LogStore


def test_console() -> None:
    logs, shown = LogStore(), list[str]()
    write = make_sink(logs, CONTROLLERS, shown.append)
    write(json.dumps({"time": "T", "level": "info", "msg": "hello", "id": 1}, separators=(",", ":")))
    write(json.dumps({"time": "T", "level": "debug", "msg": "quiet"}, separators=(",", ":")))
    assert shown == ["T hello id=1"]
    assert logs.ids() == [CONTROLLERS]
    line = json.dumps({"time": "T", "level": "error", "msg": "m", "error": "E", "traceback": "trace"})
    assert format_for_console(line) == "T m error=E \ntrace"
