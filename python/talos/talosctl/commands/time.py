"""``talosctl time``."""

from collections.abc import Iterable

from google.protobuf.empty_pb2 import Empty

from talos.api.time.time_pb2 import Time, TimeRequest, TimeResponse
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.command import Row, parts, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.output.units import format_moment


def run_time(invocation: Invocation) -> int:
    """The node's clock beside that of its time server."""
    server = invocation.flags.text("check")

    async def call(session: Session, node: str) -> list[Time]:
        if server:
            request = TimeRequest(server=server)
            reply = await session.unary(node, "/time.TimeService/TimeCheck", request, TimeResponse)
        else:
            reply = await session.unary(node, "/time.TimeService/Time", Empty(), TimeResponse)
        return list(parts(reply, Time))

    return run_table(invocation, ("NODE", "NTP-SERVER", "NODE-TIME", "NTP-SERVER-TIME"), call, _rows)


def _rows(node: str, times: list[Time]) -> Iterable[Row]:
    for time in times:
        yield (node, time.server, format_moment(time.localtime), format_moment(time.remotetime))


COMMAND = Command(
    name="time",
    usage="[--check server]",
    summary="Compare the node's clock with a time server",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="check", help="the time server to query instead of the node's own"),
    ),
    run=run_time,
)
