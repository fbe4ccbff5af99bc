"""``talosctl dns-query``."""

from collections.abc import Iterable

from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import make_duration
from talos.client.session import Session, open_session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, need_nodes, print_table, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.probes import SERVICE, format_time
from talos.talosctl.client.select import find_target

HEADER = ("NODE", "SERVER", "TIME", "CODE", "SECTION", "NAME", "TTL", "TYPE", "DATA")
_EXITS = {"NOERROR": Exit.DONE, "REFUSED": Exit.REFUSED}
"""By the codes of answers."""
TYPES = ("A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT")


def run_query(invocation: Invocation) -> int:
    """A row for each record, or one without a record."""
    flags = invocation.flags
    request = pb.DNSQueryRequest(
        name=invocation.args[0],
        type=flags.text("type"),
        server=flags.text("server"),
        timeout=make_duration(flags.seconds("timeout")),
    )

    async def call(session: Session, node: str) -> pb.DNSQueryReply:
        return await session.unary(node, f"{SERVICE}DNSQuery", request, pb.DNSQueryReply)

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
            print_table(outcomes, HEADER, _rows, flags.text("output"))
            code = report_failures(session, outcomes)
        codes = {_EXITS.get(outcome.value.code, Exit.FAILED) for outcome in outcomes if outcome.value}
        return code or (codes.pop() if len(codes) == 1 else Exit.FAILED)

    return run_async(main())


def _rows(node: str, reply: pb.DNSQueryReply) -> Iterable[Row]:
    begin = (node, reply.server, format_time(reply.round_trip), reply.code)
    for record in reply.records:
        section = pb.Record.Section.Name(record.section).lower()
        yield (*begin, section, record.name, str(record.time_to_live), record.type, record.data)
    if not reply.records:
        yield (*begin, "", "", "", "", "")


COMMAND = Command(
    name="dns-query",
    usage="<name>",
    summary="Query DNS servers from the node",
    details="The node queries the servers that its own programs have, or another one. The name is a\n"
    "whole one: no search domain is appended.",
    example="talosctl -n @all dns-query kubernetes.default.svc.cluster.local --server 10.96.0.10",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(
            name="type",
            short="t",
            default="A",
            suggestions=TYPES,
            help="the type of records, such as AAAA or TYPE65; with PTR the name may be an address",
        ),
        Flag(name="server", help="the address of the server to query instead of the node's own"),
        Flag(
            name="timeout",
            type=Type.DURATION,
            default="5s",
            help="how long to wait for an answer, 100ms to 30s",
        ),
    ),
    minimum=1,
    maximum=1,
    run=run_query,
)
