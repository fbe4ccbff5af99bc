"""``talosctl traceroute``."""

from collections.abc import Sequence

from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import make_duration
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, run_async
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.probes import (
    EXCLUSIVE_FAMILIES,
    FAMILY_FLAGS,
    SERVICE,
    find_family,
    format_time,
    run_probe,
)
from talos.talosctl.output.rows import RowStream

HEADER = ("NODE", "ADDRESS", "HOP", "FROM", "TIMES", "ERROR")
WIDTHS = (0, 0, 0, 15, 27)
LOST = "*"
"""A packet without an answer, as traceroute has always shown it."""


def run_traceroute(invocation: Invocation) -> int:
    """A row for each hop as soon as its packets are answered, or are not."""
    flags = invocation.flags
    request = pb.TracerouteRequest(
        host=invocation.args[0],
        family=find_family(flags),
        protocol=pb.TracerouteRequest.ICMP if flags.is_set("icmp") else pb.TracerouteRequest.UDP,
        max_hops=flags.number("max-hops"),
        queries=flags.number("queries"),
        timeout=make_duration(flags.seconds("timeout")),
    )
    rows = RowStream(flags.text("output"), HEADER, WIDTHS)

    async def call(session: Session, node: str) -> bool:
        address, has_arrived = "", False
        async with session.stream(node, f"{SERVICE}Traceroute", request, pb.TracerouteReply) as replies:
            async for reply in replies:
                if reply.HasField("address"):
                    address = reply.address
                elif reply.HasField("hop"):
                    has_arrived |= reply.hop.is_destination
                    rows.show((node, address, *make_cells(reply.hop)))
        return has_arrived

    return run_async(run_probe(flags, call))


def make_cells(hop: pb.Hop) -> Row:
    """The cells of a hop: who has answered, each one once, and the times of its packets."""
    senders = _list_once([answer.sender for answer in hop.answers])
    errors = _list_once([answer.error for answer in hop.answers])
    times = [format_time(answer.round_trip) if answer.sender else LOST for answer in hop.answers]
    return (str(hop.number), ", ".join(senders), " ".join(times), ", ".join(errors))


def _list_once(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


COMMAND = Command(
    name="traceroute",
    usage="<host>",
    summary="Show the routers between the node and a host",
    details="The node sends packets that live for one router, then for two, and so on, by UDP to ports from\n"
    "33434 on, or as ICMP echo requests.",
    example="talosctl -n 10.0.0.11 traceroute registry.example.org --icmp",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        *FAMILY_FLAGS,
        Flag(name="icmp", type=Type.BOOL, help="send ICMP echo requests instead of UDP"),
        Flag(name="max-hops", type=Type.UINT16, default="30", help="hops, at most 64"),
        Flag(name="queries", type=Type.UINT16, default="3", help="packets to each hop, at most 10"),
        Flag(
            name="timeout",
            type=Type.DURATION,
            default="1s",
            help="how long to wait for the replies of a hop, 100ms to 10s",
        ),
    ),
    exclusive=(EXCLUSIVE_FAMILIES,),
    minimum=1,
    maximum=1,
    run=run_traceroute,
)
