"""Where machined's own lines go: its log, and the console."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from talos.machined.logs.kernel import PREFIX, KernelLogWriter
from talos.machined.logs.store import LogStore
from talos.system.logging import Log

MACHINED = "machined"
CONTROLLERS = "controller-runtime"
_NOT_SHOWN = frozenset({"time", "level", "msg", "service", "traceback"})


def format_for_console(line: str) -> str:
    """A structured line as text: the message, then the other fields."""
    record: Mapping[str, Any] = json.loads(line)
    parts = [record["time"], f"{record['msg']}"]
    parts += [f"{key}={value}" for key, value in record.items() if key not in _NOT_SHOWN]
    if "traceback" in record:
        parts.append(f"\n{record['traceback']}")
    return " ".join(parts)


def is_shown(line: str) -> bool:
    """Whether a line of PID 1 is on the console whatever the config has."""
    return '"level":"debug"' not in line


def make_sink(logs: LogStore, log_id: str, console: Callable[[str], None]) -> Callable[[str], None]:
    """The sink of a Log of PID 1: its log, and the console except for debug lines."""
    logs.register(log_id)

    def write(line: str) -> None:
        logs.append(log_id, line.encode(errors="replace") + b"\n")
        if is_shown(line):
            console(format_for_console(line))

    return write


def write_to_stderr(text: str) -> None:
    """Write to stderr, the console on the container platform."""
    with suppress(OSError):
        os.write(2, f"{PREFIX}{text}\n".encode(errors="replace"))


def make_console(*, has_kernel: bool) -> Callable[[str], None]:
    """The console of this machine: the kernel's log, or stderr in a container."""
    if not has_kernel:
        return write_to_stderr
    try:
        writer = KernelLogWriter()
    except OSError:
        return write_to_stderr

    def write(text: str) -> None:
        for line in text.splitlines():
            writer.write(line)

    return write


def make_controllers_log(logs: LogStore, *, has_kernel: bool) -> Log:
    """The log of PID 1's controllers and their runtime, shown on the console, too."""
    return Log(
        {"component": CONTROLLERS},
        write=make_sink(logs, CONTROLLERS, make_console(has_kernel=has_kernel)),
    )
