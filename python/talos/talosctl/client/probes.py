"""What the commands have in common that check what a node reaches."""

from google.protobuf.duration_pb2 import Duration

from talos.api.durations import format_nanoseconds
from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import read_duration
from talos.client.session import open_session
from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import NodeCall, need_nodes
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.select import find_target

SERVICE = "/talos.probe.ProbeService/"
FAMILY_FLAGS = (
    Flag(name="ipv4", short="4", type=Type.BOOL, help="only take IPv4 addresses of the name"),
    Flag(name="ipv6", short="6", type=Type.BOOL, help="only take IPv6 addresses of the name"),
)
EXCLUSIVE_FAMILIES = ("ipv4", "ipv6")
_MICROSECOND, _MICROSECONDS = 1000, 10**6
"""Nanoseconds of one, and how many a second has."""


def find_family(flags: Flags) -> pb.Family:
    """The family that the flags name."""
    if flags.is_set("ipv4"):
        return pb.FAMILY_IPV4
    return pb.FAMILY_IPV6 if flags.is_set("ipv6") else pb.FAMILY_ANY


def format_time(duration: Duration) -> str:
    """A round trip to the microsecond: ``1.234ms``."""
    return format_nanoseconds(round(read_duration(duration) * _MICROSECONDS) * _MICROSECOND)


async def run_probe(flags: Flags, call: NodeCall[bool]) -> int:
    """Call every node; the exit code. The call returns whether its node has reached what it should."""
    target = await find_target(flags)
    async with open_session(target) as session:
        outcomes = await call_nodes(session, need_nodes(target), call)
        code = report_failures(session, outcomes)
    return code or (Exit.DONE if all(outcome.value for outcome in outcomes) else Exit.TIMED_OUT)
