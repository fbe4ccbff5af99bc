"""Reporting to the supervisor that a daemon serves."""

import os

READY_FD = "TALOS_READY_FD"
"""The environment variable that names the supervisor's pipe."""

READY_MESSAGE = b"READY=1\n"


def notify_ready() -> None:
    """Report readiness once; nothing happens without a supervisor."""
    fd = os.environ.pop(READY_FD, None)
    if fd is not None:
        os.write(int(fd), READY_MESSAGE)
        os.close(int(fd))
