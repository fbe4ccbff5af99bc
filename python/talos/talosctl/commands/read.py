"""``talosctl read``."""

import codecs
import sys

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import ReadRequest
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import raise_error, run_one
from talos.talosctl.client.complete import complete_path
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.output import console


def run_read(invocation: Invocation) -> int:
    """Write a file's content to the output as it is; to a terminal as text without controls."""
    request = ReadRequest(path=invocation.args[0])
    decoder = codecs.getincrementaldecoder("utf-8")("replace") if sys.stdout.isatty() else None

    async def read(session: Session, node: str) -> None:
        async with session.stream(node, "/machine.MachineService/Read", request, Data) as chunks:
            async for chunk in chunks:
                raise_error(chunk)
                if decoder is None:
                    console.write_bytes(chunk.bytes)
                else:
                    console.write(decoder.decode(chunk.bytes))
        console.flush_bytes()

    return run_one(invocation, "read", read)


COMMAND = Command(
    name="read",
    aliases=("cat",),
    usage="<path>",
    summary="Print a file of the node",
    flags=CLIENT_FLAGS,
    minimum=1,
    maximum=1,
    run=run_read,
    complete=complete_path,
)
