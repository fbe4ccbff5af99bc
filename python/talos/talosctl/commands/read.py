"""``talosctl read``."""

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import ReadRequest
from talos.client.session import Session, open_session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import need_one_node, raise_error, run_async
from talos.talosctl.client.complete import complete_path
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console


def run_read(invocation: Invocation) -> int:
    """Write a file's content to the output as it is."""
    request = ReadRequest(path=invocation.args[0])

    async def read(session: Session, node: str) -> None:
        async with session.stream(node, "/machine.MachineService/Read", request, Data) as chunks:
            async for chunk in chunks:
                raise_error(chunk)
                console.write_bytes(chunk.bytes)
        console.flush_bytes()

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, [need_one_node(target, "read")], read)
            return report_failures(session, outcomes)

    return run_async(main())


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
