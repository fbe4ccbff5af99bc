"""Reaping of processes that have ended, by a process that is the parent of all orphans."""

import os
from collections.abc import Iterator


def reap() -> Iterator[tuple[int, int]]:
    """Every child that has ended: its pid and exit code, negative for a signal."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError:  # no child at all
            return
        if found is None:  # none that has ended
            return
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        yield found.si_pid, code
