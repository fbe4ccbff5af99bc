"""What reboot, shutdown, reset and upgrade have in common."""

import asyncio
from collections.abc import Awaitable, Callable

from talos.client.session import Session, open_session
from talos.talosctl.cli.command import Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.select import select_target
from talos.talosctl.client.track import Act, act_and_track
from talos.talosctl.output import console

WAIT_FLAGS = (
    Flag(name="wait", type=Type.BOOL, default="true", help="wait until it is done and show the progress"),
    Flag(name="timeout", type=Type.DURATION, default="30m0s", help="with --wait: how long to wait"),
    Flag(name="debug", type=Type.BOOL, default="false", help="with --wait: also show the kernel's log"),
)

type Prepare = Callable[[Session, str], Awaitable[bool]]
type Finish = Callable[[Session, str], Awaitable[None]]


def run_power(
    invocation: Invocation,
    act: Act,
    *,
    is_reboot: bool,
    prepare: Prepare | None = None,
    finish: Finish | None = None,
    before: str = "it was not told to begin",
) -> int:
    """Start the action on every node and, with --wait, see it through.

    ``prepare`` runs first on each node and returns whether the action shall follow; ``finish`` is what
    --wait waits for at last. ``before`` is how an interrupt leaves a node whose action has not started.
    """
    flags, started = invocation.flags, set[str]()

    async def begin(session: Session, node: str) -> str:
        started.add(node)
        return await act(session, node)

    async def do(session: Session, node: str) -> None:
        if prepare is not None and not await prepare(session, node):
            return
        if flags.is_set("wait"):
            await act_and_track(
                session,
                node,
                begin,
                seconds=flags.seconds("timeout"),
                is_reboot=is_reboot,
                is_debug=flags.is_set("debug"),
            )
            if finish is not None:
                await finish(session, node)
        else:
            await begin(session, node)

    async def do_unless_interrupted(session: Session, node: str) -> None:
        try:
            await do(session, node)
        except asyncio.CancelledError:
            console.note(f"{node}: interrupted: {'it goes on by itself' if node in started else before}")
            raise

    async def main() -> int:
        target = select_target(flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, need_nodes(target), do_unless_interrupted)
            return report_failures(session, outcomes)

    return run_async(main())
