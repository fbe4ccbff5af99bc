"""How the fetcher speaks: plain lines on stderr, and one kind of failure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")  # the host's Python may be 3.11


class FetchError(Exception):
    """What the user must see in one line: what went wrong and what to do."""


def log(line: str) -> None:
    """Print one line at once."""
    print(line, file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    may_fail: bool = False,
) -> str:
    """Run a client and return what it printed; its own error text becomes the failure's."""
    argv = [str(word) for word in command]
    done = subprocess.run(argv, env=env, cwd=cwd, text=True, capture_output=True, check=False)
    if done.returncode and not may_fail:
        shown = " ".join(argv[:6]) + (" …" if len(argv) > 6 else "")
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise FetchError(f"`{shown}` ended with {done.returncode}:\n{tail}")
    return done.stdout


def batches(items: Sequence[T], size: int) -> list[Sequence[T]]:  # noqa: UP047 - Python 3.11
    """Cut a sequence into pieces, so that progress can be shown between them."""
    return [items[start : start + size] for start in range(0, len(items), size)]
