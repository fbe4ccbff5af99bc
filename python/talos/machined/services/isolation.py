"""The workloads' own namespaces: how they are made and entered, and their first process, ``sandboxd``.

This runs in processes that the zygote forks; PID 1's side is :mod:`talos.machined.node.workloads`. A process
that is not in a pid namespace can't be seen, signalled or traced from it, not even by a pod that has
``hostPID`` and all privileges, and its files in ``/proc``, such as ``/proc/1/root``, are not there.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from talos.process.privileges import Privileges, drop_privileges, enter_sandbox
from talos.process.ready import READY_MESSAGE
from talos.system import kernel
from talos.system.reaping import reap
from talos.system.sandbox import NO_PATHS


def make_namespaces() -> None:
    """Leave for new namespaces; the pid namespace is that of the children, the next one its first process.

    What PID 1 mounts appears there, too. What is mounted there does not appear here, and ends with them.
    """
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    # Containers share what they mount with each other: the kubelet mounts volumes for pods.
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)


def enter_namespaces(pidfd: int) -> None:
    """Join those of a process; the pid namespace is that of the children."""
    kernel.setns(pidfd, kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)


def run_first_process(title: str, ready: int) -> NoReturn:
    """Reap the namespace's orphans for ever.

    The kernel keeps from a namespace's first process all signals that it has no handler for, but SIGKILL from
    outside, which ends all processes in it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    kernel.umount("/proc", kernel.MNT_DETACH)  # below the new one it could be laid bare
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    drop_privileges(title, Privileges(uid=0, gid=0))
    enter_sandbox((), NO_PATHS)
    os.write(1, b"started as PID 1 of the workloads' namespaces\n")
    os.write(ready, READY_MESSAGE)
    os.close(ready)
    while True:
        signal.sigwait((signal.SIGCHLD,))
        for _ in reap():
            pass


def execute(argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    """Become a program, with default signal handling; OSError."""
    for number in signal.valid_signals():
        with suppress(OSError):  # SIGKILL and SIGSTOP have no other
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(argv[0], argv, environment)  # noqa: S606 - without a shell, by intent
