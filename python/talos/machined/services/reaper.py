"""The one place where PID 1 reaps processes."""

from collections.abc import Generator
from contextlib import contextmanager

from talos.machined.node.child import Child
from talos.system.reaping import reap


class Reaper:
    """Reaps every child; the exit code of a registered one is passed to its waiters.

    Nothing else in the process may wait for children.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Child] = {}
        self._expecting = 0
        self._early: dict[int, int] = {}
        self.orphans = 0

    def drain(self) -> None:
        """Reap all children that have ended; called on SIGCHLD."""
        for pid, code in reap():
            child = self._waiting.pop(pid, None)
            if child is not None:
                child.finish(code)
            elif self._expecting:
                self._early[pid] = code
            else:
                self.orphans += 1

    @contextmanager
    def expecting(self) -> Generator[None]:
        """Keep exit codes while another process starts a child of PID 1, whose pid is not known yet."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1
            if not self._expecting:
                self.orphans += len(self._early)
                self._early.clear()

    def register(self, pid: int) -> Child:
        """A child to wait for; at once after its start, or within ``expecting``."""
        child = Child(pid)
        code = self._early.pop(pid, None)
        if code is None:
            self._waiting[pid] = child
        else:
            child.finish(code)
        return child
