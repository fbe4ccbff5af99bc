"""``talosctl ping``."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from talos.api.ping_summary import make_summary
from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import make_duration, read_duration
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
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
from talos.talosctl.output import console
from talos.talosctl.output.rows import RowStream, format_line
from talos.talosctl.output.table import format_table

HEADER = ("NODE", "ADDRESS", "SEQUENCE", "FROM", "BYTES", "TTL", "TIME", "ERROR")
WIDTHS = (0, 0, 0, 15, 0, 0, 9)
SUMMARY = ("NODE", "ADDRESS", "SENT", "RECEIVED", "LOST", "MIN", "AVG", "MAX", "DEVIATION")


def run_ping(invocation: Invocation) -> int:
    """A row for each packet as soon as it is answered or lost, then one for each node, also after Ctrl-C."""
    flags = invocation.flags
    request, output = make_request(invocation.args[0], flags), flags.text("output")
    packets, pings = RowStream(output, HEADER, WIDTHS), dict[str, _Ping]()

    async def call(session: Session, node: str) -> bool:
        ping = pings[node] = _Ping()
        async with session.stream(node, f"{SERVICE}Ping", request, pb.PingReply) as replies:
            async for reply in replies:
                ping.take(reply)
                if reply.HasField("packet"):
                    packets.show((node, ping.address, *_packet_cells(reply.packet)))
        return ping.make_summary().received > 0

    async def main() -> int:
        try:
            return await run_probe(flags, call)
        finally:
            _show_summaries(output, pings)

    return run_async(main())


@dataclass(slots=True)
class _Ping:
    """What a node has sent so far."""

    address: str = ""
    _packets: list[pb.PingPacket] = field(default_factory=list[pb.PingPacket])
    _summary: pb.PingSummary | None = None

    def take(self, reply: pb.PingReply) -> None:
        """Keep a part; there may be some that only a later version has."""
        match reply.WhichOneof("part"):
            case "address":
                self.address = reply.address
            case "packet":
                self._packets.append(reply.packet)
            case "summary":
                self._summary = reply.summary
            case _:
                pass

    def make_summary(self) -> pb.PingSummary:
        """The node's own, or of the packets that are answered or lost while there is none."""
        replies = [packet for packet in self._packets if not packet.error]
        times = [read_duration(packet.round_trip) for packet in replies]
        return self._summary or make_summary(len(self._packets), times)


def _show_summaries(output: str, pings: Mapping[str, _Ping]) -> None:
    """A row for each node that has found the host."""
    rows = [
        (node, ping.address, *_summary_cells(ping.make_summary()))
        for node, ping in pings.items()
        if ping.address
    ]
    if output != "table":
        console.write("".join(format_line(output, SUMMARY, row) for row in rows))
    elif rows:
        console.write("\n" + format_table([SUMMARY, *rows]))


def make_request(host: str, flags: Flags) -> pb.PingRequest:
    """The request that the flags describe."""
    return pb.PingRequest(
        host=host,
        family=find_family(flags),
        count=flags.number("count"),
        size=flags.number("size"),
        interval=make_duration(flags.seconds("interval")),
        timeout=make_duration(flags.seconds("timeout")),
    )


def _packet_cells(packet: pb.PingPacket) -> Row:
    time = format_time(packet.round_trip) if packet.HasField("round_trip") else ""
    has_reply = not packet.error
    size = str(packet.size) if has_reply else ""
    lifetime = str(packet.time_to_live) if has_reply else ""
    return (str(packet.sequence), packet.sender, size, lifetime, time, packet.error)


def _summary_cells(summary: pb.PingSummary) -> Row:
    lost = (summary.sent - summary.received) / summary.sent if summary.sent else 0.0
    times = (summary.min, summary.avg, summary.max, summary.deviation)
    cells = [format_time(time) if summary.received else "" for time in times]
    return (str(summary.sent), str(summary.received), f"{lost:.0%}", *cells)


COMMAND = Command(
    name="ping",
    usage="<host>",
    summary="Check whether the node reaches a host by ICMP echo",
    details="The node sends the packets, to an address or to a name that it resolves.",
    example="talosctl -n 10.0.0.11,10.0.0.12 ping 10.0.0.1 --count 3",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        *FAMILY_FLAGS,
        Flag(name="count", type=Type.UINT16, default="5", help="packets, at most 10000"),
        Flag(
            name="interval", type=Type.DURATION, default="1s", help="from one packet to the next, 100ms to 1m"
        ),
        Flag(
            name="size",
            short="s",
            type=Type.UINT16,
            default="56",
            help="bytes behind the header, at most 8972",
        ),
        Flag(
            name="timeout",
            type=Type.DURATION,
            default="2s",
            help="how long to wait for a reply, 100ms to 1m",
        ),
    ),
    exclusive=(EXCLUSIVE_FAMILIES,),
    minimum=1,
    maximum=1,
    run=run_ping,
)
