"""``talosctl events``."""

import contextlib
import math

from talos.api.durations import parse_duration
from talos.api.machine.machine_pb2 import Event, EventsRequest
from talos.client.events import describe_event
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import ignore, raise_error, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.output.rows import RowStream

HEADER = ("NODE", "ID", "EVENT", "ACTOR", "SOURCE", "MESSAGE")
WIDTHS = (0, 20, 41, 36, 16)
"""What an ID, the longest event's type and an actor's UUID need."""


def run_events(invocation: Invocation) -> int:
    """Print events as they happen."""
    flags = invocation.flags
    after_id, seconds = flags.text("since"), flags.seconds("duration")
    # Neither form can be read as the other: an id has 20 characters and no unit at its end.
    with contextlib.suppress(ValueError):
        after_id, seconds = "", parse_duration(after_id)
    request = EventsRequest(
        tail_events=flags.number("tail"),
        tail_seconds=math.ceil(seconds),
        tail_id=after_id,
        with_actor_id=flags.text("actor-id"),
    )
    rows = RowStream(flags.text("output"), HEADER, WIDTHS)

    async def follow(session: Session, node: str) -> None:
        async with session.stream(node, "/machine.MachineService/Events", request, Event) as events:
            async for event in events:
                raise_error(event)
                if not event.data.type_url:
                    continue  # the frame that opens every stream
                name, source, message = describe_event(event)
                rows.show((node, event.id, name, event.actor_id, source, message))

    return run_each(invocation, follow, ignore, shows_wait=False)


COMMAND = Command(
    name="events",
    summary="Show what happens on the node as it happens",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="tail", type=Type.INT32, default="", help="begin with this many past events, -1 for all"),
        Flag(name="duration", type=Type.DURATION, help="begin with the events of this long ago"),
        Flag(name="since", help="begin after the event with this ID, or with the events of this long ago"),
        Flag(name="actor-id", help="only events of this actor, as reboot and shutdown name it"),
    ),
    run=run_events,
)
