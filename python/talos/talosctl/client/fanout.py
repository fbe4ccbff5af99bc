"""One call to each node, all at once, and what came of each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.exit import Exit
from talos.talosctl.client.failure import find_exit
from talos.talosctl.output import console
from talos.talosctl.output.waiting import showing_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome[T]:
    """What a node answered, or why it did not."""

    node: str
    value: T | None = None
    error: RpcError | UserError | None = None


async def call_nodes[T](
    session: Session, nodes: Sequence[str], call: Callable[[Session, str], Awaitable[T]]
) -> list[Outcome[T]]:
    """Call every node at once. One that fails does not disturb the others; the order is kept."""

    async def call_node(node: str) -> Outcome[T]:
        try:
            return Outcome(node=node, value=await call(session, node))
        except (RpcError, UserError) as error:
            return Outcome(node=node, error=error)

    return await asyncio.gather(*(call_node(node) for node in nodes))


async def await_nodes[T](
    session: Session, nodes: Sequence[str], call: Callable[[Session, str], Awaitable[T]]
) -> list[Outcome[T]]:
    """:func:`call_nodes` for calls that show nothing: a terminal has which nodes are waited for."""
    pending = set(nodes)

    async def call_node(session: Session, node: str) -> T:
        try:
            return await call(session, node)
        finally:
            pending.discard(node)

    async with showing_wait(pending):
        return await call_nodes(session, nodes, call_node)


def report_failures[T](session: Session, outcomes: Sequence[Outcome[T]]) -> int:
    """Name every node that failed on stderr; the exit code, that of all failures when they are alike."""
    lines: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            lines.setdefault(describe(outcome.error, session.target), []).append(outcome.node)
    console.flush()
    for line, nodes in lines.items():
        names = ", ".join(filter(None, nodes))
        # An unreachable endpoint may be the node itself.
        is_named = not names or line.startswith(names)
        console.note(f"error: {line}" if is_named else f"error: {names}: {line}")
    codes = {find_exit(outcome.error) for outcome in outcomes if outcome.error is not None}
    return codes.pop() if len(codes) == 1 else Exit.FAILED if codes else Exit.DONE
