"""The program ``talosctl``."""

import os
import sys
from collections.abc import Sequence

from talos.talosctl.cli.run import run_command
from talos.talosctl.tree import ROOT

BROKEN_PIPE = 141
"""What a shell reports for a program ended by SIGPIPE: 128 + 13."""


def run(words: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        if words[:1] == ["__complete"]:
            from talos.talosctl.commands.completion import print_offers

            return print_offers(list(words[1:]))
        code = run_command(ROOT, words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, say `head`, has seen enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def main() -> None:
    """Entry point."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
