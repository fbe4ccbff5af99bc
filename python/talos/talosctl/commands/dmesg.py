"""``talosctl dmesg``."""

from collections.abc import AsyncIterator

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import DmesgRequest
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import raise_error
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.session import Session
from talos.talosctl.client.streams import run_streams


def run_dmesg(invocation: Invocation) -> int:
    """Print the kernel's log."""
    flags = invocation.flags
    request = DmesgRequest(follow=flags.is_set("follow"), tail=flags.is_set("tail"))

    async def read(session: Session, node: str) -> AsyncIterator[bytes]:
        async with session.stream(node, "/machine.MachineService/Dmesg", request, Data) as messages:
            async for message in messages:
                raise_error(message)
                yield message.bytes if message.bytes.endswith(b"\n") else message.bytes + b"\n"

    return run_streams(invocation, read)


COMMAND = Command(
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
