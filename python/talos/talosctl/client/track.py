"""Following an action that a node runs in the background: reboot, shutdown, reset, upgrade.

The node answers such a call at once with an actor id; what it then does it tells as events of that
actor. The stream breaks when the node goes down, which is no error here.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import (
    DmesgRequest,
    Event,
    EventsRequest,
    MachineStatusEvent,
    PhaseEvent,
    ReadRequest,
    SequenceEvent,
    TaskEvent,
)
from talos.api.rpc import Code, RpcError
from talos.talosctl.client.events import unpack_event
from talos.talosctl.client.session import Session, open_session
from talos.talosctl.output import console

BOOT_ID = "/proc/sys/kernel/random/boot_id"
POLL_INTERVAL = 1.0
_GONE = frozenset({Code.UNAVAILABLE, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN, Code.DEADLINE_EXCEEDED})
"""What a call may end with when its node goes down."""

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
    boot_id = await read_boot_id(session, node) if is_reboot else ""
    try:
        async with asyncio.timeout(seconds or None):
            actor = await act(session, node)
            console.note(f"{node}: accepted, actor {actor}")
            kernel_log = asyncio.create_task(_show_kernel_log(session, node)) if is_debug else None
            try:
                await _follow(session, node, actor)
            finally:
                if kernel_log:
                    kernel_log.cancel()
            if is_reboot:
                await _wait_for_boot(session, node, boot_id)
    except TimeoutError as error:
        what = "is not back" if is_reboot else "is not done"
        raise RpcError(Code.DEADLINE_EXCEEDED, f"the node {what} after {seconds:g} s") from error
    return actor


async def _follow(session: Session, node: str, actor: str) -> None:
    request = EventsRequest(tail_events=-1, with_actor_id=actor)
    try:
        async with session.stream(node, "/machine.MachineService/Events", request, Event) as events:
            async for event in events:
                if _is_end(node, unpack_event(event)):
                    return
    except RpcError as error:
        if error.code not in _GONE:
            raise
    console.note(f"{node}: gone")


def _is_end(node: str, message: object) -> bool:
    """Show an event; whether the action is done. One that failed raises."""
    if isinstance(message, SequenceEvent):
        if message.HasField("error"):
            raise RpcError(Code.ABORTED, f"the node could not do it: {message.error.message}")
        if message.action == SequenceEvent.STOP:
            return True
    if line := _progress(message):
        console.note(f"{node}: {line}")
    return False


def _progress(message: object) -> str:
    match message:
        case SequenceEvent(action=SequenceEvent.START):
            return f"{message.sequence} started"
        case PhaseEvent(action=PhaseEvent.START):
            return f"phase {message.phase}"
        case TaskEvent(action=TaskEvent.START):
            return f"task {message.task}"
        case MachineStatusEvent():
            return f"stage {MachineStatusEvent.MachineStage.Name(message.stage)}"
        case _:
            return ""


async def _show_kernel_log(session: Session, node: str) -> None:
    request = DmesgRequest(follow=True, tail=True)
    with contextlib.suppress(RpcError):
        async with session.stream(node, "/machine.MachineService/Dmesg", request, Data) as messages:
            async for message in messages:
                console.note(f"{node}: {message.bytes.decode('utf-8', 'replace').rstrip()}")


async def _wait_for_boot(session: Session, node: str, old_boot_id: str) -> None:
    while True:
        try:
            # A fresh connection each time: an endpoint that went down may be the node itself.
            async with open_session(session.target) as fresh, asyncio.timeout(5 * POLL_INTERVAL):
                if await read_boot_id(fresh, node) != old_boot_id:
                    console.note(f"{node}: is back")
                    return
        except RpcError as error:
            if error.code not in _GONE:
                raise
        except TimeoutError:
            pass
        await asyncio.sleep(POLL_INTERVAL)
