"""What a service's silence counts on a busy machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from talos.machined.services.health import MIN_SILENCE_SHARE, ProcessorWaits
from talos.system.process import read_processor_times

SILENCE_DURATION = 60.0  # seconds
ENDLESS = "while True: pass"


@contextmanager
def running(code: str) -> Generator[int]:
    """A process that shares one processor with others of its kind."""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SILENCE_DURATION
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_process_that_gets_no_processor_is_not_silent() -> None:
    with running(ENDLESS), running(ENDLESS) as starved:
        waits = ProcessorWaits(starved)
        wait_for(lambda: waits.discount(2.0) < 1.0)
        # However long it waits, a part of the silence counts.
        assert waits.discount(0.1) == pytest.approx(0.1 * MIN_SILENCE_SHARE)


def test_a_process_that_is_stopped_is_silent() -> None:
    with running(ENDLESS), running(ENDLESS) as stopped:
        os.kill(stopped, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{stopped}/stat").read_text().split()[2] == "T")
        before = read_processor_times(stopped)
        with running(ENDLESS) as other:
            wait_for(lambda: sum(time.waited for time in read_processor_times(other).values()) > 0.1)
        assert read_processor_times(stopped) == before


def test_one_that_has_ended_waits_no_more() -> None:
    with running(ENDLESS) as pid:
        waits = ProcessorWaits(pid)
    assert read_processor_times(pid) == {}
    assert waits.discount(1000.0) > 500.0
