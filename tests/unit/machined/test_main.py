"""PID 1 in a pid namespace of its own: it ends by the kernel's reboot, or not at all."""

import signal
import sys

import pytest

from talos.system.process import run_command

pytestmark = pytest.mark.root

AS_PID_1 = """
import os
import talos.machined.boot.failure as failure
failure.DELAY = 0.1
import talos.machined.boot.{module} as module
def fail(*args, **words):
    {deed}
module.{function} = fail
assert os.getpid() == 1
from talos.machined.main import main
main()
"""


def run_as_pid_1(module: str, function: str, deed: str) -> tuple[int, str]:
    """How PID 1 ends when one of its functions does something bad."""
    program = AS_PID_1.format(module=module, function=function, deed=deed)
    command = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", sys.executable, "-c", program]
    result = run_command(command, check=False, timeout=30)
    return result.returncode, result.stderr


@pytest.mark.parametrize(
    ("module", "function", "deed", "reason"),
    [
        ("early", "boot_machine", "raise ValueError('on purpose')", "ValueError: on purpose"),
        ("early", "boot_machine", "raise SystemExit(3)", "SystemExit: 3"),
        ("early", "boot_machine", "return None", "machined ended"),
        ("early", "mount_pseudo", "raise OSError(28, 'full')", "OSError: [Errno 28] full"),
    ],
)
def test_every_end_is_a_reboot_with_a_reason(module: str, function: str, deed: str, reason: str) -> None:
    code, stderr = run_as_pid_1(module, function, deed)
    # reboot(2) in a pid namespace ends its init with SIGHUP; unshare passes that on.
    assert code in (-signal.SIGHUP, 128 + signal.SIGHUP)
    assert reason in stderr
    assert "[talos] rebooting in 0 s" in stderr
