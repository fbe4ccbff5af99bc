"""Programs that PID 1 runs to their end for its other parts."""

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import BinaryIO

import trio

from talos.machined.logs.store import LineSplitter, LogStore
from talos.machined.node.child import Child
from talos.machined.services.reaper import Reaper
from talos.machined.services.spec import ENVIRONMENT
from talos.system.errors import UserError
from talos.system.process import Finished, spawn

PIPE_READ = 65536


class ProcessRunner:
    """Runs programs and logs their output."""

    def __init__(self, reaper: Reaper, logs: LogStore) -> None:
        self._reaper = reaper
        self._logs = logs

    async def run(self, argv: Sequence[str], *, log: str = "") -> int:
        """Run a program to its end: its exit code, negative for a signal. Cancelling kills it."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with FileIO(reading), FileIO(writing, "w") as output:
            child = self._reaper.register(spawn(argv, env=ENVIRONMENT, stdout=writing, stderr=writing))
            output.close()
            with _killing_when_cancelled(child):
                await self._collect(reading, log or "machined")
                return await child.wait()

    async def capture(self, argv: Sequence[str], stdin: bytes = b"") -> Finished:
        """Run a program to its end and give back what it wrote. Cancelling kills it.

        Input and output are files in memory: for programs with little output.
        """
        with _open_file() as given, _open_file() as out, _open_file() as err:
            given.write(stdin)
            given.seek(0)
            try:
                pid = spawn(
                    argv, env=ENVIRONMENT, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno()
                )
            except OSError as error:
                raise UserError(f"can't be started: {error.strerror}", where=argv[0]) from None
            child = self._reaper.register(pid)
            with _killing_when_cancelled(child):
                code = await child.wait()
            out.seek(0)
            err.seek(0)
            return Finished(code=code, stdout=out.read(), stderr=err.read())

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


@contextmanager
def _killing_when_cancelled(child: Child) -> Generator[None]:
    try:
        yield
    except trio.Cancelled:
        child.signal(signal.SIGKILL)
        raise


def _open_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("talos-program", os.MFD_CLOEXEC), "w+b", buffering=0)
