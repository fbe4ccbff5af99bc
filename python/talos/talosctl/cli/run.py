"""Runs one command line: parse, help or function, errors to one line and an exit code."""

import shutil
import sys
from collections.abc import Sequence

from talos.system.errors import UserError
from talos.talosctl.cli.command import Command
from talos.talosctl.cli.exit import CommandError, Exit
from talos.talosctl.cli.help import help_text
from talos.talosctl.cli.parse import UsageError, find_command, parse
from talos.talosctl.output import console


def run_command(root: Command, argv: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    try:
        return _show_help(root, argv[1:]) if argv and argv[0] == "help" else _run(root, argv)
    except UsageError as error:
        console.note(f"error: {error.message}\nRun '{' '.join(error.path)} --help' for usage.")
        return Exit.USAGE
    except UserError as error:
        console.note(f"error: {error}")
        if isinstance(error, CommandError):
            return error.code
        return Exit.USAGE if error.where.startswith("--") else Exit.FAILED
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk, a file that may not be written: this machine's matter, not a defect of ours.
        place = f"{error.filename}: " if error.filename else ""
        console.note(f"error: {place}{error.strerror or error}")
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _show_help(root: Command, argv: Sequence[str]) -> int:
    chain, left = find_command(root, argv)
    if left:
        topic = " ".join(left)
        raise UsageError(f'unknown help topic "{topic}"', (root.name,))
    _write_help(chain)
    return 0


def _write_help(chain: Sequence[Command]) -> None:
    """In lines of a terminal's width; what reads a pipe may look for a whole line."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    sys.stdout.write(help_text(chain, width))


def _run(root: Command, argv: Sequence[str]) -> int:
    invocation = parse(root, argv)
    if invocation.flags.is_set("help") or invocation.command.run is None:
        chain, _ = find_command(root, argv)
        _write_help(chain)
        return 0
    for flag in invocation.flags.find_deprecated():
        console.note(f"Flag --{flag.name} has been deprecated, {flag.deprecated}")
    return invocation.command.run(invocation)
