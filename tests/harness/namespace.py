"""Network namespaces of tests: a trio function in a process and a network of its own, as a daemon runs."""

import ctypes
import faulthandler
import gc
import os
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import trio._core._thread_cache as thread_cache  # pyright: ignore[reportPrivateUsage]

from talos.process.run import Daemon, run
from talos.system.logging import Log

_CLONE_NEWNS, _CLONE_NEWNET = 0x20000, 0x40000000
TEST_TIMEOUT = 180.0
"""Seconds in which a test's function has to end."""
HANG_DELAY = 30.0
"""Seconds after that in which its process has to end; else it is ended, and its stacks are what fails."""

THREADS_LIMIT = 12.0
"""Seconds to wait for threads of the tests before: trio's own limit for an idle one is 10."""

thread_cache.IDLE_TIMEOUT = 0.1
"""Seconds after which trio's idle threads end, or the next fork would wait for them."""


def unshare_network() -> None:
    """Give this process a network of its own, and a view of it in /sys."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET | _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    private = 1 << 18 | 1 << 14
    library.mount(b"none", b"/", None, private, None)
    library.mount(b"sysfs", b"/sys", b"sysfs", 0, None)


def wait_for_threads() -> None:
    """Wait until this thread is the only one: a forked process never gets a lock that another one holds."""
    deadline = time.monotonic() + THREADS_LIMIT
    while len(list(Path("/proc/self/task").iterdir())) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)


def run_in_namespace(function: Callable[[Daemon], Awaitable[None]], *, timeout: float = TEST_TIMEOUT) -> None:
    """Run a test's function in a new network; what fails there fails here. ``timeout`` in seconds."""
    with TemporaryDirectory() as folder, (Path(folder) / "stacks").open("w+") as stacks:
        report = Path(folder) / "error"
        wait_for_threads()
        child = os.fork()
        if child == 0:
            code = 1
            # A call that blocks the event loop, or a thread that is waited for, outlives trio's time-out.
            faulthandler.dump_traceback_later(timeout + HANG_DELAY, exit=True, file=stacks)
            # What the tests before left is the parent's to collect: objects of grpc wait for threads that a
            # forked process does not have.
            gc.freeze()
            try:
                unshare_network()

                async def limited(daemon: Daemon) -> None:
                    try:
                        with trio.fail_after(timeout):
                            await function(daemon)
                    except BaseException:
                        report.write_text(traceback.format_exc())
                        raise

                run(limited, name="test", log=Log(write=lambda _: None))
                code = 0
            except BaseException:
                if not report.exists():
                    report.write_text(traceback.format_exc())
                raise
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            stacks.seek(0)
            error = report.read_text() if report.exists() else f"status {status}"
            raise AssertionError(f"{error}\n{stacks.read()}")
