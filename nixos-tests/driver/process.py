"""Programs that a test starts, each of which ends with it, whatever happens."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from driver.clock import CLOCK
from driver.failure import VmTestError

PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""
KILL_DELAY = 5.0
"""Seconds between SIGTERM and SIGKILL."""
POLL_INTERVAL = 1.0
"""Seconds between two checks of the clock, which is exact when it is read often."""
LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_process(
    argv: Sequence[str],
    *,
    log: Path,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that dies with this one. Its output goes to ``log``, unless ``stdout`` is another."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=file if stdout is None else stdout,
            stderr=file,
            env=env,
            preexec_fn=_die_with_parent,
        )
    CLOCK.watch(process.pid, lambda: process.returncode is None)
    return process


def end_process(process: subprocess.Popen[bytes], *, is_power_cut: bool = False) -> None:
    """End a program, by SIGTERM first unless it is to fall like a machine without power."""
    if process.poll() is None:
        if not is_power_cut:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILL_DELAY)
        if process.poll() is None:
            process.kill()
        process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Path = Path(os.devnull),
    seconds: float = 60,
    check: bool = True,
) -> Result:
    """Run a command to its end; with ``check`` a failure shows its whole output.

    ``seconds`` are counted by the clock of the programs under test, of which the command is one.
    """
    with (
        stdin.open("rb") as file,
        subprocess.Popen(
            list(argv),
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=env,
            cwd=cwd,
        ) as process,
    ):
        CLOCK.watch(process.pid, lambda: process.returncode is None)
        try:
            result = _follow(process, seconds)
        finally:
            process.kill()
    if check and result.code:
        raise VmTestError(f"{' '.join(argv)}: exit code {result.code}\n{result.stdout}{result.stderr}")
    return result


def _follow(process: subprocess.Popen[str], seconds: float) -> Result:
    end = CLOCK.now() + seconds
    while True:
        try:
            stdout, stderr = process.communicate(timeout=POLL_INTERVAL)
        except subprocess.TimeoutExpired:
            if CLOCK.now() >= end:
                return Result(code=-1, stdout="", stderr=f"gave no answer for {seconds:.0f} s")
        else:
            return Result(code=process.returncode, stdout=stdout, stderr=stderr)
