"""Starting a node's PID 1 in namespaces of its own.

Two forks: the first child joins the node's control groups and leaves all namespaces but the
user's, the second, which is PID 1 of the new pid namespace, makes the mounts, waits until it
has its eth0, makes its root the root and becomes /sbin/init. The first child ends at once,
and this process, a subreaper, becomes PID 1's parent: what a node calls ``reboot(2)`` for
reaches it as the signal its PID 1 ended with.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from talos.provision.container.mounts import NodeMounts, mount_node
from talos.provision.host import cgroups
from talos.provision.host.cgroups import WRITER, Hierarchy
from talos.provision.launcher import StartError
from talos.system import kernel

INIT = "/sbin/init"
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "TERM": "linux",
}
_NAMESPACES = (
    os.CLONE_NEWCGROUP
    | os.CLONE_NEWNS
    | os.CLONE_NEWUTS
    | os.CLONE_NEWIPC
    | os.CLONE_NEWNET
    | os.CLONE_NEWPID
)
_GO = b"g"
_MAX_ERROR = 4096
"""Bytes."""


def start_init(mounts: NodeMounts, group: Sequence[str], console: Path, plug: Callable[[int], None]) -> int:
    """Start a node; returns the pid of its PID 1 when that has become /sbin/init.

    ``plug`` gives the network namespace of a pid its eth0.
    """
    pid_read, pid_write = os.pipe()
    go_read, go_write = os.pipe()
    error_read, error_write = os.pipe()
    output = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            # Both ends of our pipes must be closed where they aren't used, or their end is never seen.
            os.close(pid_read)
            os.close(go_write)
            os.close(error_read)
            _leave(mounts, group, output, pid_write, go_read, error_write)
        os._exit(1)
    for descriptor in (pid_write, go_read, error_write, output):
        os.close(descriptor)
    try:
        os.waitpid(child, 0)
        text = os.read(pid_read, 32)
        if not text:
            raise StartError(_read_all(error_read))
        pid = int(text)
        try:
            plug(pid)
            os.write(go_write, _GO)
            _check_exec(error_read)
        except Exception as failure:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            # PID 1's output explains more than its end.
            raise StartError(_read_all(error_read) or str(failure)) from failure
        return pid
    finally:
        for descriptor in (pid_read, go_write, error_read):
            os.close(descriptor)


def _leave(
    mounts: NodeMounts, group: Sequence[str], output: int, pid_write: int, go_read: int, error_write: int
) -> NoReturn:
    step = "join control groups"
    try:
        os.setsid()
        cgroups.join(mounts.hierarchies, group, os.getpid())
        step = "unshare namespaces"
        os.unshare(_NAMESPACES)
        # Nothing of what follows may be seen outside.
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        pid = os.fork()
        if pid:
            os.write(pid_write, str(pid).encode())
            os._exit(0)
        os.close(pid_write)
        step = "join the control group init"
        _leave_root_group(mounts.hierarchies, group)
        step = "mount"
        mount_node(mounts)
        step = "wait for eth0"
        if os.read(go_read, 1) != _GO:
            os._exit(1)
        step = f"start {INIT}"
        _become_init(mounts.root, output, error_write)
    except BaseException as error:  # noqa: BLE001 - the parent is informed, whatever it was
        os.write(error_write, f"{step}: {error}".encode()[:_MAX_ERROR])
        os._exit(1)


def _leave_root_group(hierarchies: Sequence[Hierarchy], group: Sequence[str]) -> None:
    """Version 2 gives controllers to groups below only while no process is in the group itself."""
    unified = [hierarchy for hierarchy in hierarchies if hierarchy.unified]
    for hierarchy in unified:
        hierarchy.path.joinpath(*group, "init").mkdir(exist_ok=True)
    cgroups.join(unified, (*group, "init"), WRITER)


def _become_init(root: Path, output: int, error_write: int) -> NoReturn:
    # A node without its launcher has no network and is never restarted. From here on the
    # launcher is our parent.
    kernel.set_parent_death_signal(signal.SIGKILL)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    kernel.pivot_root(str(root))
    # What containers mount has to be seen by those that requested it.
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)
    # Python ignores these for itself; what is ignored stays so across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    # What the program that created the cluster had open is no business of the node's; exec closes the pipe.
    kernel.close_inherited((error_write,))
    os.execve(INIT, [INIT], _ENVIRONMENT)  # noqa: S606 - our own image's init


def _check_exec(error_read: int) -> None:
    """Wait until PID 1 has become the init: exec closes the pipe."""
    error = _read_all(error_read)
    if error:
        raise StartError(error)


def _read_all(descriptor: int) -> str:
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, _MAX_ERROR):
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace")
