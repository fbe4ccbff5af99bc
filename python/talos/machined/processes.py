"""Programs that PID 1 runs for somebody, to their end."""

import os
from collections.abc import Sequence

import trio

from talos.machined.logs import LineSplitter, LogStore
from talos.machined.reaper import Reaper
from talos.machined.service import ENVIRONMENT
from talos.system.process import spawn

PIPE_READ = 65536


class ProcessRunner:
    """Runs programs; what they write goes to a log."""

    def __init__(self, reaper: Reaper, logs: LogStore) -> None:
        self._reaper = reaper
        self._logs = logs

    async def run(self, argv: Sequence[str], *, log: str = "") -> int:
        """Run a program to its end: its exit code, negative for a signal. Cancelling kills it."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        try:
            child = self._reaper.register(spawn(argv, env=ENVIRONMENT, stdout=writing, stderr=writing))
            os.close(writing)
            writing = -1
            try:
                await self._collect(reading, log or "machined")
                return await child.wait()
            except trio.Cancelled:
                if not child.has_ended:
                    os.kill(child.pid, 9)
                raise
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)

    async def _collect(self, reading: int, log: str) -> None:
        splitter = LineSplitter()
        while True:
            await trio.lowlevel.wait_readable(reading)
            data = os.read(reading, PIPE_READ)
            lines = splitter.feed(data) if data else splitter.finish()
            if lines:
                self._logs.append(log, lines)
            if not data:
                return
