"""The pid and mount namespaces of workloads, as PID 1 sees them from outside.

With ``SecurityProfileConfig.workloadIsolation`` containerd for Kubernetes and all that it runs are in
namespaces of their own, whose first process is the service ``sandboxd``. Else they are in PID 1's.
"""

import os

from talos.system import kernel
from talos.system.errors import UserError

SANDBOXD = "sandboxd"
"""The service that is their first process; without it they end."""


class Workloads:
    """Processes and files of workloads. ``is_isolated`` is decided once, when services are started."""

    def __init__(self) -> None:
        self.is_isolated = False
        self._pid = 0
        self._pidfd = -1
        self._namespace = -1

    def attach(self, pid: int) -> None:
        """Note the first process of the namespaces, which are ready; OSError when it has ended."""
        self.detach()
        self._pidfd = os.pidfd_open(pid)
        self._namespace = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._pid = pid

    def detach(self) -> None:
        """Forget the first process: it has ended, and the kernel has ended all others."""
        for descriptor in (self._pidfd, self._namespace):
            if descriptor >= 0:
                os.close(descriptor)
        self._pid, self._pidfd, self._namespace = 0, -1, -1

    @property
    def pidfd(self) -> int:
        """Of the first process; UserError while there is none."""
        if self._pidfd < 0:
            raise UserError("does not run, so nothing can be started beside it", where=SANDBOXD)
        return self._pidfd

    def find_pid(self, pid: int) -> int:
        """The pid in PID 1's namespace by that among workloads; ProcessLookupError when it has ended."""
        if not self.is_isolated:
            return pid
        if self._namespace < 0:
            raise ProcessLookupError(pid)
        return kernel.find_pid(self._namespace, pid)

    def find_path(self, path: str) -> str:
        """Where PID 1 sees a path of theirs."""
        return f"/proc/{self._pid}/root{path}" if self._pid else path
