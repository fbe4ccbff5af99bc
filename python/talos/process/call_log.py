"""A line for each call of the API in a daemon's log, as upstream's: code, method, duration, outcome and more.

    OK [/machine.MachineService/Version] 1.5ms unary Success (peer=10.5.0.1;talos-role=os:admin)

It is written when the call has ended. Of a flood of calls a part is logged, and how many are not.
"""

import re
import time
from collections.abc import Callable

from talos.api.durations import format_duration
from talos.api.metadata import CALLER, REACHED
from talos.api.rpc import Code
from talos.rpc.handlers import CallEnd
from talos.system.logging import Log, make_printable

BURST = 100
"""Lines in a row."""
PER_SECOND = 2.0
"""Lines in the long run: the log is on the disk, too, others are in it, and all readers of it make calls. In
memory it has its last megabyte."""
MAX_FIELD = 128
"""Characters of a method's name, which a client chooses, of one value of the metadata, and of an error."""
MAX_METADATA = 1024
"""Characters of the metadata, of which a client may send 64 KiB."""
PEER, HIDDEN = "peer", "<hidden>"
_SECRET = re.compile(r"token|secret|passw|auth|cookie|credential|key", re.IGNORECASE)
"""In the names of metadata whose values are not shown: clients send passwords for what lies between."""


class CallLog:
    """Writes the lines."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._left, self._time, self._left_out = float(BURST), clock(), 0

    def record(self, end: CallEnd) -> None:
        """Note that a call has ended."""
        if self.has_room():
            self.write(end)

    def has_room(self) -> bool:
        """Whether the call that has ended now is a line; if not, it is counted."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._time) * PER_SECOND)
        self._time = now
        if self._left < 1:
            self._left_out += 1
            return False
        self._left -= 1
        return True

    def write(self, end: CallEnd) -> None:
        """Write the line for which there is room."""
        left_out = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        self._log.info(format_call(end), **left_out)


def format_call(end: CallEnd) -> str:
    """The text of a line."""
    values: dict[str, list[str]] = {}
    for key, value in end.metadata:
        if isinstance(value, str) and key != REACHED:
            shown = HIDDEN if _SECRET.search(key) else _cut(value)
            values.setdefault(PEER if key == CALLER else _cut(key), []).append(shown)
    metadata = ";".join(f"{key}={','.join(found)}" for key, found in sorted(values.items()))[:MAX_METADATA]
    outcome = "Success" if end.status.code == Code.OK else _cut(end.status.message)
    form = "stream" if end.streams else "unary"
    code = format_code(end.status.code)
    return (
        f"{code} [{_cut(end.method)}] {format_duration(round(end.seconds, 6))} {form} {outcome} ({metadata})"
    )


def _cut(text: str) -> str:
    return make_printable(text[:MAX_FIELD])


def format_code(number: int) -> str:
    """A code as Go writes it: ``NotFound``; of another server's own, its number."""
    try:
        code = Code(number)
    except ValueError:
        return f"Code({number})"
    if code is Code.OK:
        return "OK"
    return "Canceled" if code is Code.CANCELLED else code.name.title().replace("_", "")
