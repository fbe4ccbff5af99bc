"""Following an action that a node runs in the background: reboot, shutdown, reset, upgrade.

The node answers such a call at once with an actor id and sends what it then does as events of that
actor. The stream breaks when the node goes down, which is no error here. The texts of the progress are
those of the existing client, which scripts look for.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from talos.api.common.common_pb2 import LOCKED, Data
from talos.api.machine.machine_pb2 import (
    Event,
    EventsRequest,
    MachineStatusEvent,
    PhaseEvent,
    ReadRequest,
    SequenceEvent,
    TaskEvent,
)
from talos.api.rpc import Code, RpcError
from talos.client.events import unpack_event
from talos.client.session import Session, open_session
from talos.talosctl.client.logs import read_kernel_log
from talos.talosctl.output import console
from talos.upgrade.state import BUSY

BOOT_ID = "/proc/sys/kernel/random/boot_id"
POLL_INTERVAL = 1.0  # seconds
POLL_TIMEOUT = 5.0  # seconds
LOST_ANSWER_TIMEOUT = 10.0
"""Seconds until a node is called again whose answer was lost: one that goes down is faster than that."""
_DOWN = frozenset({Code.UNAVAILABLE, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN, Code.DEADLINE_EXCEEDED})
"""What a call may end with when its node goes down."""
_LOST = frozenset({Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED})
"""How a call ends that the node may have received, or not."""

type Act = Callable[[Session, str], Awaitable[str]]


async def read_boot_id(session: Session, node: str) -> str:
    """The kernel's random id of this boot."""
    content = b""
    async with session.stream(
        node, "/machine.MachineService/Read", ReadRequest(path=BOOT_ID), Data
    ) as chunks:
        async for chunk in chunks:
            content += chunk.bytes
    return content.decode("ascii", "replace").strip()


async def act_and_track(
    session: Session, node: str, act: Act, *, seconds: float, is_reboot: bool, is_debug: bool
) -> str:
    """Start the action, show its progress, and wait until the node is down or, after a reboot, back."""
    report = Report(node, is_quoted=is_debug)
    boot_id = await read_boot_id(session, node) if is_reboot else ""
    kernel_log: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(seconds or None):
            report("waiting for actor ID")
            actor, was_lost = await _begin(session, report, act, boot_id)
            report(f"actor ID: {actor}")
            if is_debug:
                kernel_log = asyncio.create_task(_show_kernel_log(session, report))
            if actor:
                await _follow(session, report, actor, was_lost=was_lost)
            report("events check condition met")
            if is_reboot:
                await _wait_for_boot(session, report, boot_id)
                report("post check passed")
    except TimeoutError as error:
        what = "is not back" if is_reboot else "is not done"
        raise RpcError(Code.DEADLINE_EXCEEDED, f"the node {what} after {seconds:g} s") from error
    finally:
        if kernel_log:
            kernel_log.cancel()
    return actor


async def _begin(session: Session, report: "Report", act: Act, boot_id: str) -> tuple[str, bool]:
    """Start the action: the actor id, and whether an answer was lost.

    A node that goes down may be faster than its answer. It is called again while it is in the same boot; in
    the next one there is no actor id.
    """
    try:
        return await act(session, report.node), False
    except RpcError as error:
        if not boot_id or error.code not in _LOST:
            raise
        report(f"no answer: {error.reason}")
    while True:
        await asyncio.sleep(LOST_ANSWER_TIMEOUT)
        try:
            # A fresh connection, as below.
            async with open_session(session.target) as fresh:
                if await read_boot_id(fresh, report.node) != boot_id:
                    return "", True
                report("called again")
                return await act(fresh, report.node), True
        except RpcError as error:
            # The call that was lost may still be at work on the node.
            if error.code not in _DOWN and error.message != BUSY:
                raise


class Report:
    """Lines of progress of one node, on the error output. A script finds a quoted node by its quotes."""

    def __init__(self, node: str, *, is_quoted: bool) -> None:
        self.node = node
        self._prefix = f'"{node}"' if is_quoted else node
        self._last = ""

    def __call__(self, text: str) -> None:
        """Show a line, unless it repeats the last one."""
        if text != self._last:
            console.note(f"{self._prefix}: {text}")
            self._last = text


async def _follow(session: Session, report: Report, actor: str, *, was_lost: bool) -> None:
    request = EventsRequest(tail_events=-1, with_actor_id=actor)
    try:
        async with session.stream(report.node, "/machine.MachineService/Events", request, Event) as events:
            async for event in events:
                if _is_end(report, unpack_event(event), was_lost=was_lost):
                    return
    except RpcError as error:
        if error.code not in _DOWN:
            raise
        report("unavailable: the node went down")


def _is_end(report: Report, message: object, *, was_lost: bool) -> bool:
    """Show an event; whether the action is done. One that failed raises.

    What is in the way of an action whose first answer was lost is that action, which goes on.
    """
    if isinstance(message, SequenceEvent) and message.HasField("error"):
        if was_lost and message.error.code == LOCKED:
            return True
        raise RpcError(Code.ABORTED, f"sequence error: {message.error.message}")
    if line := _progress(message):
        report(line)
    return isinstance(message, SequenceEvent) and message.action == SequenceEvent.STOP


def _progress(message: object) -> str:
    match message:
        case SequenceEvent():
            return f"sequence: {message.sequence} action: {SequenceEvent.Action.Name(message.action)}"
        case PhaseEvent():
            return f"phase: {message.phase} action: {PhaseEvent.Action.Name(message.action)}"
        case TaskEvent():
            return f"task: {message.task} action: {TaskEvent.Action.Name(message.action)}"
        case MachineStatusEvent():
            stage = MachineStatusEvent.MachineStage.Name(message.stage)
            unmet = ", ".join(condition.name for condition in message.status.unmet_conditions)
            return f"stage: {stage} ready: {str(message.status.ready).lower()} unmetCond: [{unmet}]"
        case _:
            return ""


async def _show_kernel_log(session: Session, report: Report) -> None:
    with contextlib.suppress(RpcError):
        async for line in read_kernel_log(session, report.node, follow=True, tail=True):
            report(line.decode("utf-8", "replace").rstrip())


async def _wait_for_boot(session: Session, report: Report, old_boot_id: str) -> None:
    while True:
        try:
            # A fresh connection each time: an endpoint that went down may be the node itself.
            async with open_session(session.target) as fresh, asyncio.timeout(POLL_TIMEOUT):
                if await read_boot_id(fresh, report.node) != old_boot_id:
                    return
        except RpcError as error:
            if error.code not in _DOWN:
                raise
            report("unavailable, retrying...")
        except TimeoutError:
            report("unavailable, retrying...")
        await asyncio.sleep(POLL_INTERVAL)
