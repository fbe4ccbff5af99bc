"""Starting a machine's process."""

import os
from pathlib import Path

import pytest

from talos.provision.launcher import StartError
from talos.provision.qemu.nodes import start_machine


def test_a_refusal_is_the_reason(tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "echo first; echo 'no such device' >&2; exit 1"]
    with pytest.raises(StartError, match="QEMU does not start: no such device"):
        start_machine(argv, tmp_path / "log")
    with pytest.raises(StartError, match="exit code 3"):
        start_machine(["/bin/sh", "-c", "exit 3"], tmp_path / "log")


def test_a_process_that_stays_is_the_machine(tmp_path: Path) -> None:
    pid = start_machine(["/bin/sleep", "100"], tmp_path / "log")
    os.kill(pid, 9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
