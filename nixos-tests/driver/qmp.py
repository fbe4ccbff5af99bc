"""QEMU's own protocol: commands, and events such as that the machine was reset."""

import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from driver.clock import CLOCK
from driver.failure import ConditionNotMetError, VmTestError
from driver.retry import TimeoutScale, retry

type Json = dict[str, object]
ANSWER_TIMEOUT = 30.0
"""Seconds that QEMU may take for an answer; it is a busy machine's problem when it takes that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What QEMU sent of its own accord, and when it came, by the test's monotonic clock."""

    name: str
    at: float


class Qmp:
    """A connection to one QEMU. Answers and events are read by a thread of their own."""

    def __init__(self, path: Path) -> None:
        """Connect, as soon as QEMU listens."""
        self._socket = socket.socket(socket.AF_UNIX)
        connect = partial(self._connect, path)
        retry("QEMU listens", connect, timeout_scale=TimeoutScale(), seconds=ANSWER_TIMEOUT, pause=0.02)
        self._answers: queue.Queue[Json] = queue.Queue()
        self._changed = threading.Condition()
        self.events: list[Event] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.execute("qmp_capabilities")

    def _connect(self, path: Path) -> None:
        try:
            self._socket.connect(str(path))
        except OSError as error:
            raise ConditionNotMetError(str(error)) from error

    def _read(self) -> None:
        with self._socket.makefile("rb") as stream:
            for line in stream:
                message = cast("Json", json.loads(line))
                if "event" in message:
                    with self._changed:
                        self.events.append(Event(name=str(message["event"]), at=time.monotonic()))
                        self._changed.notify_all()
                elif "return" in message or "error" in message:
                    self._answers.put(message)

    def execute(self, command: str, **arguments: object) -> object:
        """Run a command and give back what it returns."""
        fields = {name.replace("_", "-"): value for name, value in arguments.items()}
        self._socket.sendall(json.dumps({"execute": command, "arguments": fields}).encode() + b"\n")
        try:
            answer = self._answers.get(timeout=ANSWER_TIMEOUT)
        except queue.Empty:
            raise VmTestError(f"QEMU did not answer to {command} within {ANSWER_TIMEOUT:.0f} s") from None
        if "error" in answer:
            raise VmTestError(f"QEMU refuses {command}: {answer['error']}")
        return answer["return"]

    def wait_for_event(
        self, name: str, seconds: float, *, after: int = 0, check: Callable[[], None] = lambda: None
    ) -> Event:
        """Wait for an event; ``after`` is how many events of any name are too old.

        When it has come several times meanwhile, the last one is given back. ``check`` is called again and
        again.
        """
        end = CLOCK.now() + seconds
        with self._changed:
            while True:
                for event in reversed(self.events[after:]):
                    if event.name == name:
                        return event
                left = end - CLOCK.now()
                if left <= 0:
                    names = ", ".join(event.name for event in self.events[after:]) or "nothing"
                    raise VmTestError(f"not within {seconds:.0f} s: {name} of QEMU; it sent {names}")
                check()
                self._changed.wait(min(left, 1))

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
