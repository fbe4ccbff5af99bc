"""The program ``talosctl``."""

import gc
import os
import sys
from collections.abc import Sequence

from talos.startup.lazy import delay_seldom_used

COLLECT_AFTER = 200_000
"""Objects made before the garbage collector runs; a command imports fewer."""


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    from talos.talosctl.cli.exit import Exit
    from talos.talosctl.cli.run import run_command
    from talos.talosctl.tree import ROOT

    try:
        if argv and argv[0] in {"__complete", "__completeNoDesc"}:
            from talos.talosctl.commands.completion import print_completion

            print_completion(ROOT, argv[0], argv[1:])
            return 0
        code = run_command(ROOT, argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        _drop_output()
        return Exit.BROKEN_PIPE
    except OSError as error:
        _drop_output()
        sys.stderr.write(f"error: the output can't be written: {error.strerror}\n")
        return Exit.FAILED
    return code


def _drop_output() -> None:
    # Python would try once more to write what is left when it ends, and complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point."""
    # Most commands import, call and end: the collector would only go through modules again and again.
    # It still runs for those that stay.
    gc.set_threshold(COLLECT_AFTER)
    delay_seldom_used()
    code = run(sys.argv[1:])
    sys.stderr.flush()
    # Everything is written and closed. Taking the interpreter apart would cost a fifth of a short command.
    os._exit(code)


if __name__ == "__main__":
    main()
