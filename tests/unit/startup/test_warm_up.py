"""What daemons run is run before they are forked, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from talos.startup import warm_up as module
from talos.startup.warm_up import warm_up

AFTER = """
import asyncio, os, signal, sys
from pathlib import Path
from talos.startup.warm_up import warm_up

before = sorted(os.listdir("/proc/self/fd"))
warm_up(Path(sys.argv[1]))
assert sorted(os.listdir("/proc/self/fd")) == before
assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) == signal.SIG_DFL
assert signal.set_wakeup_fd(-1) == -1
assert os.listdir("/proc/self/task") == [str(os.getpid())]
warm_up(Path(sys.argv[1]))  # as a daemon's own loops after the fork
"""


def test_it_runs_and_leaves_no_descriptor_signal_or_thread(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    ended = subprocess.run(
        [sys.executable, "-c", AFTER, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not path.exists()


@pytest.fixture
def signals() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_failure_is_reported_and_has_no_other_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warm_up(tmp_path / "missing" / "socket")
    assert "the warm-up failed" in capsys.readouterr().err


@pytest.mark.usefixtures("signals")
def test_one_that_takes_too_long_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WARM_UP_TIMEOUT", 0.0)
    warm_up(tmp_path / "socket")
    output = capsys.readouterr()
    assert "the warm-up is left after 0 s" in output.out + output.err
    assert "Traceback" not in output.out + output.err
    assert not (tmp_path / "socket").exists()
