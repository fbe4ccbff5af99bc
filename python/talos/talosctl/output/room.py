"""Room on this machine's disk, which no node fills."""

import os
from pathlib import Path

from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size

RESERVE = 512 << 20
"""Bytes of a disk that stay free of what nodes send; of a small one a twentieth."""
STEP = 16 << 20
"""Bytes after which the disk is looked at again."""


def check_room(place: Path | int, size: int, *, where: str) -> None:
    """UserError when the disk with a folder or an open file has no room for so many bytes more."""
    found = os.statvfs(place)
    free, reserve = found.f_bavail * found.f_frsize, min(RESERVE, found.f_blocks * found.f_frsize // 20)
    if free - size < reserve:
        shown, kept = format_pretty_size(free), format_pretty_size(reserve)
        message = f"the disk has no room for what the node sends: {shown} are free, {kept} stay so"
        raise UserError(message, where=where, hint="free some, or copy less")


class Room:
    """The disk of an open file that grows."""

    def __init__(self, place: int, *, where: str) -> None:
        self._place, self._where = place, where
        self._left = 0

    def use(self, size: int) -> None:
        """Before so many bytes are written; UserError."""
        self._left -= size
        if self._left < 0:
            check_room(self._place, size + STEP, where=self._where)
            self._left = STEP
