"""The exit codes of calls that failed."""

from talos.api.rpc import Code, RpcError
from talos.client.channel import UnreachableError
from talos.talosctl.cli.exit import CommandError, Exit

_CODES = {
    Code.UNAVAILABLE: Exit.UNREACHABLE,
    Code.UNAUTHENTICATED: Exit.REFUSED,
    Code.PERMISSION_DENIED: Exit.REFUSED,
    Code.INVALID_ARGUMENT: Exit.REFUSED,
    Code.FAILED_PRECONDITION: Exit.REFUSED,
    Code.ALREADY_EXISTS: Exit.REFUSED,
    Code.UNIMPLEMENTED: Exit.REFUSED,
    Code.DEADLINE_EXCEEDED: Exit.TIMED_OUT,
}


def find_exit(error: Exception) -> Exit:
    """The exit code for an error."""
    if isinstance(error, UnreachableError) and error.is_refusal:
        return Exit.REFUSED
    if isinstance(error, RpcError):
        return _CODES.get(error.code, Exit.FAILED)
    return error.code if isinstance(error, CommandError) else Exit.FAILED
