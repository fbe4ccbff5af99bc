"""How far a transfer is, on a terminal."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from talos.system.sizes import format_pretty_size
from talos.talosctl.output import console

STEP = 1 << 20
"""Bytes from one line to the next that replaces it."""


@contextmanager
def showing_transfer(what: str, total: int = 0) -> Generator[Callable[[int], None]]:
    """A function that is given the bytes of each piece; at the end nothing is left of what it shows.

    ``total`` are the bytes of all of it, 0 where that is not known.
    """
    passed = shown = 0
    end = f" of {format_pretty_size(total)}" if total else ""

    def note(size: int) -> None:
        nonlocal passed, shown
        passed += size
        if passed - shown >= STEP:
            shown = passed
            console.show_progress(f"{what}: {format_pretty_size(passed)}{end}")

    try:
        yield note
    finally:
        console.show_progress("")
