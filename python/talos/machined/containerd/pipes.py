"""Named pipes, for the input and output of containers.

A shim opens them by their path, which is the same in its mount namespace; what ``/proc`` shows of PID 1 may
not be there (:mod:`talos.machined.node.workloads`).
"""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from talos.process.daemons import RUN

FOLDER = Path(RUN, "pipes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPipe:
    """A pipe whose ends are open here, too. Reading from it does not block."""

    path: str
    reading: FileIO
    writing: FileIO


@contextmanager
def open_named_pipe(name: str) -> Generator[NamedPipe]:
    """Make a pipe that has its name and its ends here as long as the context lasts; OSError."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = FOLDER / name
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    with ExitStack() as stack:
        stack.callback(path.unlink)
        # Without a reader the other end could not be opened.
        reading = stack.enter_context(FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "r"))
        writing = stack.enter_context(FileIO(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "w"))
        yield NamedPipe(path=str(path), reading=reading, writing=writing)
