"""Processes by id and start."""

import os
import signal

from talos.provision.host.processes import ProcessId, identify


def test_a_pid_of_another_process_is_not_touched() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert own.is_alive()
    another = ProcessId(own.pid, own.started - 1)
    assert not another.is_alive()
    assert not another.send(signal.SIGKILL)
    assert another.wait(0)
