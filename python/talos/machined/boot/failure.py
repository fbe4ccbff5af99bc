"""If PID 1 fails, the machine reboots, with the reason on the console."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from talos.system import kernel
from talos.system.terminal import show_messages

DELAY = 10.0
"""Seconds for reading the reason."""


def reboot_after_failure(
    reason: str,
    *,
    press: Callable[[int], None] = kernel.reboot,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write the reason to the console, wait, reboot. Uses nothing that may have failed itself.

    With ``panic=0`` on the command line it waits for ever instead. Returns when the
    kernel refuses to reboot.
    """
    text = f"[talos] fatal: {reason}\n[talos] rebooting in {DELAY:.0f} s\n"
    for path in ("/dev/kmsg", "/dev/stderr"):
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_APPEND)
            for line in text.splitlines():
                os.write(fd, f"{line}\n".encode(errors="replace"))
            os.close(fd)
    with suppress(Exception):  # where they are, when a summary screen covers them
        show_messages()
    while "panic=0" in _read_cmdline().split():
        sleep(60)
    sleep(DELAY)
    with suppress(OSError):
        os.sync()
    with suppress(OSError):
        press(kernel.RB_AUTOBOOT)


def _read_cmdline() -> str:
    with suppress(OSError):
        return Path("/system/platform/cmdline").read_text(encoding="utf-8", errors="replace")
    with suppress(OSError):
        return Path("/proc/cmdline").read_text(encoding="utf-8", errors="replace")
    return ""
