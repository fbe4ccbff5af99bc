"""Commands that print logs: ``talosctl logs``, ``dmesg``."""

from collections.abc import AsyncGenerator

from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import run_streams
from talos.talosctl.client.complete import complete_logs
from talos.talosctl.client.flags import (
    CLIENT_FLAGS,
    CONTAINER_EXCLUSIVE,
    CONTAINER_FLAGS,
    INSECURE_FLAGS,
    is_kubernetes,
)
from talos.talosctl.client.logs import read_kernel_log, read_log


def run_logs(invocation: Invocation) -> int:
    """Print a service's or container's log."""
    flags, name = invocation.flags, invocation.args[0]

    def read(session: Session, node: str) -> AsyncGenerator[bytes]:
        follow = flags.is_set("follow")
        tail = flags.number("tail")
        return read_log(session, node, name, is_kubernetes=is_kubernetes(flags), follow=follow, tail=tail)

    return run_streams(invocation, read)


LOGS = Command(
    name="logs",
    usage="<service name>",
    summary="Show the log of a service",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        *CONTAINER_FLAGS,
        Flag(name="follow", short="f", type=Type.BOOL, default="false", help="go on as the log grows"),
        Flag(name="tail", type=Type.INT32, default="-1", help="only this many last lines, -1 for all"),
    ),
    minimum=1,
    maximum=1,
    exclusive=(CONTAINER_EXCLUSIVE,),
    run=run_logs,
    complete=complete_logs,
)


def run_dmesg(invocation: Invocation) -> int:
    """Print the kernel's log."""
    flags = invocation.flags

    def read(session: Session, node: str) -> AsyncGenerator[bytes]:
        return read_kernel_log(session, node, follow=flags.is_set("follow"), tail=flags.is_set("tail"))

    return run_streams(invocation, read)


DMESG = Command(
    name="dmesg",
    summary="Show the kernel's log",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(name="follow", short="f", type=Type.BOOL, default="false", help="go on as the log grows"),
        Flag(name="tail", type=Type.BOOL, default="false", help="with --follow: only what comes from now on"),
    ),
    run=run_dmesg,
)
