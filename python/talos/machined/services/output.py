"""What the processes of a service write: one pipe for all of them, whose lines go to its log."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

import trio

from talos.machined.containerd.pipes import open_named_pipe
from talos.machined.logs.store import AUDIT, LineSplitter, LogStore, split_records
from talos.machined.services.spec import RunContainer, ServiceSpec

PIPE_READ = 65536


class ServiceOutput:
    """The pipe of a service, which is there while it is kept running."""

    def __init__(self, spec: ServiceSpec, logs: LogStore) -> None:
        self._spec = spec
        self._logs = logs
        self.writing = -1
        self.path = ""
        """By which a shim opens the pipe of a container."""

    @contextmanager
    def open(self) -> Generator[int]:
        """Make the pipe; its reading end."""
        with ExitStack() as stack:
            if isinstance(self._spec.start, RunContainer):
                pipe = stack.enter_context(open_named_pipe(self._spec.id))
                self.path = pipe.path
                reading, self.writing = pipe.reading.fileno(), pipe.writing.fileno()
            else:
                reading, self.writing = os.pipe()
                stack.callback(os.close, reading)
                stack.callback(os.close, self.writing)
                os.set_blocking(reading, False)
            try:
                yield reading
            finally:
                self.writing, self.path = -1, ""

    async def collect(self, reading: int) -> None:
        """Append what is written to the service's log until this is cancelled."""
        splitter = LineSplitter()
        for log in (self._spec.id, AUDIT) if self._spec.audited else (self._spec.id,):
            self._logs.register(log)
        try:
            while True:
                await trio.lowlevel.wait_readable(reading)
                lines = splitter.feed(os.read(reading, PIPE_READ))
                self._append(lines)
        finally:
            with suppress(BlockingIOError):
                self._append(splitter.feed(os.read(reading, PIPE_READ)) + splitter.finish())

    def _append(self, lines: bytes) -> None:
        records = b""
        if self._spec.audited:
            records, lines = split_records(lines)
        for log, part in ((AUDIT, records), (self._spec.id, lines)):
            if part:
                self._logs.append(log, part)
