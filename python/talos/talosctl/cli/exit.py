"""What a command's exit code means. docs/talosctl.md has the table."""

import enum

from talos.system.errors import UserError


class Exit(enum.IntEnum):
    """The exit codes. The existing client has 0 and 1 only: what compares with 0 goes on working."""

    DONE = 0
    FAILED = 1
    """What no other code is for, and nodes that failed for different reasons."""
    USAGE = 2
    """The command line itself is wrong: an argument, a flag or its value. Nothing was changed."""
    UNREACHABLE = 3
    """No connection, or it broke before the answer."""
    REFUSED = 4
    """The node does not accept the certificate, its role, or the request, in its present state or at all.

    With ``dns-query``, the DNS server.
    """
    TIMED_OUT = 5
    """What was waited for did not happen in time; it may happen yet."""
    CHANGES = 6
    """``talosctl plan``: there is something to change."""
    INTERRUPTED = 130
    """What a shell reports for a program ended by SIGINT: 128 + 2."""
    BROKEN_PIPE = 141
    """What a shell reports for a program ended by SIGPIPE: 128 + 13."""


class CommandError(UserError):
    """A command that ends here, with its exit code."""

    def __init__(self, message: str, *, code: Exit) -> None:
        super().__init__(message)
        self.code = code
