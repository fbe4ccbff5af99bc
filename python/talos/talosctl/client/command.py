"""The shapes of a command on nodes: a table, each answer on its own, lines as they come, one node only."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from talos.api.rpc import Code, RpcError
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.fanout import Outcome, await_nodes, call_nodes, report_failures
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console
from talos.talosctl.output.rows import format_rows

type Row = Sequence[str]
type NodeCall[T] = Callable[[Session, str], Awaitable[T]]


def run_async[T](main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end, mostly its exit code."""
    return asyncio.run(main)


def need_nodes(target: Target) -> tuple[str, ...]:
    """The nodes of the command line or the context."""
    if not target.nodes:
        raise UserError(
            "nodes are not set for the command",
            where="--nodes",
            hint="name some, or `talosctl config node <address>...` for all commands",
        )
    return target.nodes


def need_one_node(target: Target, command: str) -> str:
    """The only node, for commands whose output has no node in it."""
    nodes = need_nodes(target)
    if len(nodes) > 1:
        raise UserError(
            f"{command} is not supported with multiple nodes: {', '.join(nodes)}",
            where="--nodes",
            hint="name one of them",
        )
    return next(iter(nodes))


def parts[M: Message](reply: Message, kind: type[M]) -> Iterable[M]:
    """The messages of a reply of the old form; one that is an error is raised."""
    for message in reply.messages:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType] - every such reply has the field
        assert isinstance(message, kind)
        raise_error(message)
        yield message


def raise_error(message: Message) -> None:
    """Raise the error that a proxy put into a message's metadata."""
    metadata: Any = getattr(message, "metadata", None)
    if metadata is not None and metadata.error:
        code = Code(metadata.status.code) if metadata.status.code else Code.UNKNOWN
        raise RpcError(code, metadata.error)


def run_table[T](
    invocation: Invocation,
    header: Row,
    call: NodeCall[T],
    rows: Callable[[str, T], Iterable[Row]],
    *,
    shows_empty: bool = True,
) -> int:
    """Call every node and print one table of all their rows, without any only if it ``shows_empty``."""

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await await_nodes(session, need_nodes(target), call)
            print_table(outcomes, header, rows, invocation.flags.text("output"), shows_empty=shows_empty)
            return report_failures(session, outcomes)

    return run_async(main())


def print_table[T](
    outcomes: Sequence[Outcome[T]],
    header: Row,
    rows: Callable[[str, T], Iterable[Row]],
    output: str,
    *,
    shows_empty: bool = True,
) -> None:
    """The rows of all nodes that answered, in a format of the flag OUTPUT; nothing when none did."""
    answers = [(outcome.node, outcome.value) for outcome in outcomes if outcome.value is not None]
    if answers:
        body = [row for node, value in answers for row in rows(node, value)]
        if body or shows_empty or output != "table":
            console.write(format_rows(output, header, body))


def run_each[T](
    invocation: Invocation, call: NodeCall[T], show: Callable[[str, T], None], *, shows_wait: bool = True
) -> int:
    """Call every node and show each answer on its own; without ``shows_wait`` calls print as they go on."""

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            call_all = await_nodes if shows_wait else call_nodes
            outcomes = await call_all(session, need_nodes(target), call)
            for outcome in outcomes:
                if outcome.value is not None:
                    show(outcome.node, outcome.value)
            return report_failures(session, outcomes)

    return run_async(main())


def run_one(invocation: Invocation, command: str, call: NodeCall[None]) -> int:
    """Call the only node; the call itself shows what it gets. UserError for several nodes."""

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, [need_one_node(target, command)], call)
            return report_failures(session, outcomes)

    return run_async(main())


def ignore(node: str, answer: object) -> None:
    """Show nothing, as commands do whose success is silent."""


async def print_lines(node: str, chunks: AsyncGenerator[bytes]) -> None:
    """Whole lines of a byte stream, each with its node, as soon as they are there."""
    rest = b""
    prefix = f"{node}: ".encode()
    # Printing ends early when the reader is gone: a generator that is left open complains when the loop ends.
    async with aclosing(chunks):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                console.write_log(prefix + line for line in lines)
    if rest:
        console.write_log([prefix + rest])


type Read = Callable[[Session, str], AsyncGenerator[bytes]]


def run_streams(invocation: Invocation, read: Read) -> int:
    """Print the lines of every node's byte stream, each line with its node in front."""

    async def copy(session: Session, node: str) -> None:
        await print_lines(node, read(session, node))

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), copy)
            return report_failures(session, outcomes)

    return run_async(main())
