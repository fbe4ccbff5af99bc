"""``talosctl usage``."""

from collections.abc import Iterable

from talos.api.machine.machine_pb2 import DiskUsageInfo, DiskUsageRequest
from talos.client.session import Session, open_session
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, need_nodes, raise_error, run_async
from talos.talosctl.client.complete import complete_path
from talos.talosctl.client.fanout import Outcome, call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console
from talos.talosctl.output.rows import format_rows


def run_usage(invocation: Invocation) -> int:
    """How much the files below each path use."""
    flags = invocation.flags
    request = DiskUsageRequest(
        # The node counts the path itself as a level, and takes 0 for no limit.
        recursion_depth=flags.number("depth") + 1,
        all=flags.is_set("all"),
        threshold=flags.number("threshold"),
        paths=invocation.args or ("/",),
    )

    async def call(session: Session, node: str) -> list[DiskUsageInfo]:
        frames: list[DiskUsageInfo] = []
        async with session.stream(node, "/machine.MachineService/DiskUsage", request, DiskUsageInfo) as infos:
            async for info in infos:
                raise_error(info)
                frames.append(info)
        return frames

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
        is_many = len(outcomes) > 1
        rows = list(_rows(outcomes, is_many=is_many, is_human=flags.is_set("humanize")))
        header = ("NODE", "SIZE", "NAME") if is_many else ("SIZE", "NAME")
        if rows:
            console.write(format_rows(flags.text("output"), header, rows))
        code = report_failures(session, outcomes)
        for outcome in outcomes:
            for info in outcome.value or ():
                if info.error:
                    console.note(f"error: {outcome.node}: {info.name}: {info.error}")
                    code = 1
        return code

    return run_async(main())


def _rows(outcomes: list[Outcome[list[DiskUsageInfo]]], *, is_many: bool, is_human: bool) -> Iterable[Row]:
    for outcome in outcomes:
        for info in outcome.value or ():
            if not info.error:
                size = format_pretty_size(info.size) if is_human else str(info.size)
                row = (size, info.relative_name or info.name)
                yield (outcome.node, *row) if is_many else row


COMMAND = Command(
    name="usage",
    aliases=("du",),
    usage="[path1] [path2] ... [pathN]",
    summary="Show how much space files use",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="all", short="a", type=Type.BOOL, default="false", help="also files, not only folders"),
        Flag(name="depth", short="d", type=Type.INT32, help="show folders this deep, 0 only the sums"),
        Flag(name="humanize", short="H", type=Type.BOOL, default="false", help="sizes with units"),
        Flag(
            name="threshold",
            short="t",
            type=Type.INT,
            help="only what is larger than this many bytes, or smaller if negative",
        ),
    ),
    maximum=-1,
    run=run_usage,
    complete=complete_path,
)
