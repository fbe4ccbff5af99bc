"""What reboot, shutdown, reset and upgrade have in common."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from talos.client.session import Session, open_session
from talos.talosctl.cli.command import Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.select import find_target
from talos.talosctl.client.track import Act, act_and_track
from talos.talosctl.output import console

if TYPE_CHECKING:
    from talos.talosctl.client.drain import Drainer

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
    drainer: "Drainer | None" = None,
    before: str = "the request was not sent",
    waits: bool = False,
) -> int:
    """Start the action on every node and, with --wait, see it through.

    ``prepare`` runs first on each node and returns whether the action shall follow; ``finish`` is what
    --wait waits for at last. ``drainer`` drains each node before the action, and uncordons it at the end of
    the wait. ``before`` is how an interrupt leaves a node whose action has not started.
    With ``waits`` it waits whatever the flag is.
    """
    flags, started = invocation.flags, set[str]()
    waits = waits or flags.is_set("wait")

    async def begin(session: Session, node: str) -> str:
        started.add(node)
        return await act(session, node)

    async def do(session: Session, node: str) -> None:
        if prepare is not None and not await prepare(session, node):
            return
        async with drainer.around(session, node, uncordons=waits) if drainer else nullcontext():
            if not waits:
                await begin(session, node)
                return
            await _run_and_track(session, node, begin, flags, is_reboot=is_reboot, finish=finish)

    async def do_unless_interrupted(session: Session, node: str) -> None:
        try:
            await do(session, node)
        except asyncio.CancelledError:
            console.note(f"{node}: interrupted: {'it goes on by itself' if node in started else before}")
            raise

    async def main() -> int:
        target = await find_target(flags)
        try:
            async with open_session(target) as session:
                outcomes = await call_nodes(session, need_nodes(target), do_unless_interrupted)
                return report_failures(session, outcomes)
        finally:
            if drainer is not None:
                drainer.show_cordoned()

    return run_async(main())


async def _run_and_track(
    session: Session, node: str, begin: Act, flags: Flags, *, is_reboot: bool, finish: Finish | None
) -> None:
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


def make_drainer(flags: Flags) -> "Drainer | None":
    """What drains nodes from here before they reboot, None when the nodes' own five minutes are enough."""
    is_strict = flags.is_set("strict-drain")
    if not (flags.is_set("drain") and (is_strict or flags.is_given("drain-timeout"))):
        return None
    # Kubernetes' client is loaded only where it is used.
    from talos.talosctl.client.drain import Drainer

    return Drainer(flags.seconds("drain-timeout"), is_strict)
