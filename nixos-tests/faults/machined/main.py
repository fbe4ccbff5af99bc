"""The entry of a PID 1 that fails as the kernel argument ``fault`` names it, or works without one."""

import gc
import signal
import sys
from pathlib import Path

HANG_DELAY = 15  # seconds
"""Until a PID 1 hangs that boots first."""


def main() -> None:
    """Fail, or boot."""
    arguments = Path("/proc/cmdline").read_text(encoding="ascii").split()
    if "fault=exits" in arguments:
        sys.exit(7)
    if "fault=hangs" in arguments:
        signal.signal(signal.SIGALRM, _hang)
        signal.alarm(HANG_DELAY)
    gc.disable()
    from talos.startup.generated import use_generated
    from talos.startup.lazy import delay_seldom_used

    delay_seldom_used()
    use_generated()
    from talos.machined.boot.early import boot_machine

    boot_machine()


def _hang(*_: object) -> None:
    """Block the event loop; threads and children go on."""
    with Path("/dev/kmsg").open("w", encoding="ascii") as log:
        log.write("<2>PID 1 hangs from now on: this one is for tests\n")
    while True:
        signal.pause()
