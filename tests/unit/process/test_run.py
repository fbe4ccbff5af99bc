"""A daemon's process: signals, failure, readiness, log lines. Each in a process of its own."""

import json
import os
import signal
import sys

import pytest

from talos.system.process import run_command

PROLOGUE = """
import trio
from talos.process.run import run
from talos.process.ready import notify_ready
"""


def test_sigterm_lets_main_return() -> None:
    program = """
import os, signal
async def main(daemon):
    os.kill(os.getpid(), signal.SIGTERM)
    await daemon.stopping.wait()
    daemon.log.info("stopped", reason="on request")
run(main, name="sample")
"""
    result = run_command([sys.executable, "-c", PROLOGUE + program], check=False)
    line = json.loads(result.stderr)
    assert result.returncode == 0
    assert (line["level"], line["msg"], line["service"], line["reason"]) == (
        "info",
        "stopped",
        "sample",
        "on request",
    )
    assert line["time"].endswith("Z")


@pytest.mark.parametrize(("number", "is_interrupted"), [("SIGTERM", False), ("SIGINT", True)])
def test_main_can_tell_sigint_from_sigterm(number: str, *, is_interrupted: bool) -> None:
    program = f"""
import os, signal
async def main(daemon):
    os.kill(os.getpid(), signal.{number})
    await daemon.stopping.wait()
    daemon.log.info(str(daemon.interrupted.is_set()))
run(main, name="sample")
"""
    result = run_command([sys.executable, "-c", PROLOGUE + program], check=False)
    assert json.loads(result.stderr)["msg"] == str(is_interrupted)


def test_failure_is_logged_and_ends_with_1() -> None:
    program = """
async def main(daemon):
    raise ValueError("broken\\nhere")
run(main, name="sample")
"""
    result = run_command([sys.executable, "-c", PROLOGUE + program], check=False)
    line = json.loads(result.stderr)
    assert result.returncode == 1
    assert line["msg"] == "daemon failed"
    assert line["error"] == "ValueError: broken\nhere"
    assert "Traceback" in line["traceback"]


def test_libraries_warnings_become_lines() -> None:
    program = """
import logging
async def main(daemon):
    logging.getLogger("asyncio").warning("slow %s", "loop")
run(main, name="sample")
"""
    result = run_command([sys.executable, "-c", PROLOGUE + program], check=False)
    assert json.loads(result.stderr)["msg"] == "slow loop"


def test_ready_is_reported_once() -> None:
    program = """
async def main(daemon):
    notify_ready()
    notify_ready()
run(main, name="sample")
"""
    reading, writing = os.pipe()
    try:
        environment = {**os.environ, "TALOS_READY_FD": str(writing)}
        run_command([sys.executable, "-c", PROLOGUE + program], env=environment, pass_fds=(writing,))
        os.close(writing)
        assert os.read(reading, 100) == b"READY=1\n"
        assert os.read(reading, 100) == b""
    finally:
        os.close(reading)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
