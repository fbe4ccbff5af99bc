"""What goes to the screen, and nothing else does."""

import sys
from collections.abc import Iterable


def write(text: str) -> None:
    """Text as it is."""
    sys.stdout.write(text)


def write_lines(lines: Iterable[str]) -> None:
    """Lines one after another, each with its end."""
    sys.stdout.writelines(lines)


def write_line(text: str = "") -> None:
    """One line of output."""
    sys.stdout.write(f"{text}\n")


def report(line: str) -> None:
    """One line of output, shown at once also where it goes to a file."""
    write_line(line)
    flush()


def write_bytes(content: bytes) -> None:
    """Content that need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def flush() -> None:
    """Show at once what a follower waits for."""
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on the error output: progress, a warning, an error."""
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def show_progress(text: str) -> None:
    """Replace the last line on a terminal, with an empty text by nothing; nothing happens elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def confirm(question: str) -> bool:
    """Whether the user agrees; without a terminal: no."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} (y/N): ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def flush_bytes() -> None:
    """Show at once what :func:`write_bytes` wrote."""
    sys.stdout.buffer.flush()
