"""A function of a test in a process of its own: what it changes of its process ends with it."""

import faulthandler
import gc
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio._core._thread_cache as thread_cache  # pyright: ignore[reportPrivateUsage]

THREADS_TIMEOUT = 12.0
"""Seconds to wait for threads of the tests before: trio's own limit for an idle one is 10."""

thread_cache.IDLE_TIMEOUT = 0.1
"""Seconds after which trio's idle threads end, or the next fork would wait for them."""


def run_forked(function: Callable[[], None], *, timeout: float) -> None:
    """Run a function in a forked process; what fails there fails here, with its traceback.

    After ``timeout`` seconds the process is ended, and the stacks of its threads are what fails.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "error"
        _wait_for_threads()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with report.open("w") as out:
                    faulthandler.dump_traceback_later(timeout, exit=True, file=out)
                    # What the tests before left is the parent's to collect: objects of grpc wait for threads
                    # that a forked process does not have.
                    gc.freeze()
                    try:
                        function()
                        code = 0
                    except BaseException:  # noqa: BLE001 - the parent raises it
                        out.write(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0, report.read_text() or f"status {status}"


def _wait_for_threads() -> None:
    """Wait until this thread is the only one: a forked process never gets a lock that another one holds."""
    deadline = time.monotonic() + THREADS_TIMEOUT
    while len(list(Path("/proc/self/task").iterdir())) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
