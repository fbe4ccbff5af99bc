"""``talosctl diskfree``."""

import asyncio
from collections.abc import Iterable

from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.block_pb2 import MountStatusSpec
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.rpc import Code, RpcError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.resources import list_resources
from talos.talosctl.client.session import Session

type Free = tuple[str, str, StorageServiceStatfsResponse | None]
"""A volume, where it is mounted, and how full it is when it is known."""

_UNTOLD = frozenset({Code.NOT_FOUND, Code.UNKNOWN, Code.INTERNAL})
"""What the node answers for a path that was just removed, or that can't be looked at."""

NAMESPACE, MOUNT_STATUSES = "runtime", "MountStatuses.block.talos.dev"


def run_diskfree(invocation: Invocation) -> int:
    """One row for each mounted volume."""
    flags = invocation.flags
    wanted = set(invocation.args)
    is_inodes, is_bytes = flags.is_set("inodes"), flags.is_set("bytes")

    async def ask(session: Session, node: str) -> list[Free]:
        statuses = await list_resources(session, node, NAMESPACE, MOUNT_STATUSES)
        volumes = [_volume(status) for status in statuses]
        chosen = [(volume, path) for volume, path in volumes if not wanted or volume in wanted]
        return list(await asyncio.gather(*(_statfs(session, node, *row) for row in chosen)))

    def rows(node: str, volumes: list[Free]) -> Iterable[Row]:
        for volume, path, free in volumes:
            yield (node, volume, *_numbers(free, is_inodes=is_inodes, is_bytes=is_bytes), path)

    names = ("INODES", "IUSED", "IFREE", "IUSE%") if is_inodes else ("SIZE", "USED", "AVAILABLE", "USE%")
    return run_table(invocation, ("NODE", "VOLUME", *names, "MOUNTED ON"), ask, rows)


def _volume(status: Resource) -> tuple[str, str]:
    spec = MountStatusSpec.FromString(status.spec.proto_spec)
    return spec.spec.volume_id or status.metadata.id, spec.target


async def _statfs(session: Session, node: str, volume: str, path: str) -> Free:
    request = StorageServiceStatfsRequest(path=path)
    try:
        reply = await session.unary(
            node, "/machine.StorageService/Statfs", request, StorageServiceStatfsResponse
        )
    except RpcError as error:
        if error.code not in _UNTOLD:
            raise
        return volume, path, None
    return volume, path, reply


def _numbers(free: StorageServiceStatfsResponse | None, *, is_inodes: bool, is_bytes: bool) -> Row:
    if free is None:
        return ("?", "?", "?", "?")
    if is_inodes:
        numbers = (free.inodes, free.inodes_used, free.inodes_free)
    else:
        numbers = (free.size, free.used, free.available)
    is_plain = is_inodes or is_bytes
    texts = (str(number) if is_plain else format_pretty_size(number) for number in numbers)
    return (*texts, f"{100 * numbers[1] / numbers[0]:.0f}%" if numbers[0] else "-")


COMMAND = Command(
    name="diskfree",
    aliases=("df",),
    usage="[volume ID]",
    summary="Show how full the volumes are",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="bytes", short="b", type=Type.BOOL, default="false", help="exact byte counts"),
        Flag(name="inodes", short="i", type=Type.BOOL, default="false", help="inodes instead of bytes"),
    ),
    most=1,
    run=run_diskfree,
)
