"""``talosctl mounts``."""

from collections.abc import Iterable

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import Mounts, MountsResponse, MountStat
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import Row, parts, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT

HEADER = ("NODE", "FILESYSTEM", "SIZE(GB)", "USED(GB)", "AVAILABLE(GB)", "PERCENT USED", "MOUNTED ON")
_GB = 1e9


def run_mounts(invocation: Invocation) -> int:
    """One row for each mount."""
    return run_table(invocation, HEADER, _fetch, make_rows)


async def _fetch(session: Session, node: str) -> list[MountStat]:
    reply = await session.unary(node, "/machine.MachineService/Mounts", Empty(), MountsResponse)
    return [stat for part in parts(reply, Mounts) for stat in part.stats]


def make_rows(node: str, stats: list[MountStat]) -> Iterable[Row]:
    """One row for each mount."""
    for stat in stats:
        used = stat.size - stat.available
        percent = 100.0 * used / stat.size if stat.size else 0.0
        sizes = (f"{size / _GB:.2f}" for size in (stat.size, used, stat.available))
        yield (node, stat.filesystem, *sizes, f"{percent:.2f}%", stat.mounted_on)


COMMAND = Command(
    name="mounts",
    aliases=("mount",),
    summary="List what is mounted and how full it is",
    flags=(*CLIENT_FLAGS, OUTPUT),
    run=run_mounts,
)
