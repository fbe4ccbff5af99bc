"""What goes to the screen, and nothing else does. Text of nodes can't control a terminal."""

import sys
from collections.abc import Iterable

from talos.talosctl.output.visible import make_visible, make_visible_line


def write(text: str) -> None:
    """Text as it is; on a terminal without controls."""
    sys.stdout.write(make_visible(text) if sys.stdout.isatty() else text)


def write_lines(lines: Iterable[str]) -> None:
    """Lines one after another, each with its end."""
    sys.stdout.writelines(map(make_visible, lines) if sys.stdout.isatty() else lines)


def write_line(text: str = "") -> None:
    """One line of output, for people: it has no controls wherever it goes."""
    sys.stdout.write(make_visible(f"{text}\n"))


def report(line: str) -> None:
    """One line of output, shown at once also where it goes to a file."""
    write_line(line)
    flush()


def write_bytes(content: bytes) -> None:
    """Content that need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def write_log(lines: Iterable[bytes]) -> None:
    """Lines of a log without their ends; on a terminal they have colours and no other controls."""
    shown = map(make_visible_line, lines) if sys.stdout.isatty() else lines
    write_bytes(b"".join(line + b"\n" for line in shown))
    flush_bytes()


def flush() -> None:
    """Show at once what a follower waits for."""
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on the error output: progress, a warning, an error."""
    sys.stdout.flush()
    sys.stderr.write(make_visible(f"{text}\n"))
    sys.stderr.flush()


def show_progress(text: str) -> None:
    """Replace the last line on a terminal, with an empty text by nothing; nothing happens elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{make_visible(text)}")
        sys.stderr.flush()


def confirm(question: str) -> bool:
    """Whether the user agrees; without a terminal: no."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(make_visible(f"{question} (y/N): "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def flush_bytes() -> None:
    """Show at once what :func:`write_bytes` wrote."""
    sys.stdout.buffer.flush()
