"""Commands that print lines of several nodes as they come."""

from collections.abc import AsyncIterator, Callable

from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.command import need_nodes, print_lines, run_async
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.select import select_target
from talos.talosctl.client.session import Session, open_session

type Read = Callable[[Session, str], AsyncIterator[bytes]]


def run_streams(invocation: Invocation, read: Read) -> int:
    """Print the lines of every node's byte stream, each line with its node in front."""

    async def copy(session: Session, node: str) -> None:
        await print_lines(node, read(session, node))

    async def main() -> int:
        target = select_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, need_nodes(target), copy)
            return report_failures(session, outcomes)

    return run_async(main())
