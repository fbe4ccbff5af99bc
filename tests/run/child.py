"""Runs one job's command, waits for all that it started, and writes down what that cost.

    python3 -m tests.run.child USAGE NICE COMMAND …

It is the leader of the job's session, and the parent of what the job's processes leave behind: launchers of
clusters detach themselves. Those count, and none outlives the job.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_END_TIMEOUT = 20.0  # seconds
"""For what is left to end by itself, as a launcher does with its nodes."""


def main() -> int:
    """Run the command; its exit code, or 128 and the number of the signal that ended it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    usage, nice, *command = sys.argv[1:]
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The group gets the signal, too: this process outlives it. When the runner is gone, it ends them.
    signal.signal(signal.SIGINT, ignore)
    signal.signal(signal.SIGTERM, pass_on)
    be_nice(int(nice))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    code = wait_for(child.pid)
    end_rest()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = json.dumps({"processor_seconds": spent.ru_utime + spent.ru_stime})
    Path(usage).write_text(text, encoding="ascii")
    return code if code >= 0 else 128 - code


def ignore(number: int, frame: FrameType | None) -> None:
    """A handler, which a program that is started does not inherit."""


def pass_on(number: int, frame: FrameType | None) -> None:
    """Interrupt the whole group."""
    os.killpg(0, signal.SIGINT)


def be_nice(nice: int) -> None:
    """Give way to others: within the session, and as a session where the kernel weighs those."""
    os.nice(nice)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")


def wait_for(pid: int) -> int:
    """Reap whatever ends until this process does; its exit code, or the negative number of a signal."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def end_rest() -> None:
    """End what the command left running, with a word about it."""
    deadline = time.monotonic() + _END_TIMEOUT
    signalled = set[int]()
    while left := find_children():
        for pid in left - signalled:
            sys.stdout.write(f"left running, ended now: {describe(pid)}\n")
            send(pid, signal.SIGTERM)
        signalled |= left
        if time.monotonic() > deadline:
            for pid in left:
                send(pid, signal.SIGKILL)
        time.sleep(0.05)


def find_children() -> set[int]:
    """The children that run; those that have ended are reaped."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = set[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = stat.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(stat.parts[2]))
    return found


def describe(pid: int) -> str:
    """The start of a process's command line."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")[:200]
    return str(pid)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child; one that has ended needs none."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
