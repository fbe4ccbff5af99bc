"""``talosctl diskfree``."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from talos.api.definitions.block_pb2 import MountStatusSpec, VolumeStatusSpec
from talos.api.definitions.enums_pb2 import BlockFilesystemType, BlockVolumePhase, BlockVolumeType
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.client.resources import get_resource, list_resources
from talos.client.session import Session
from talos.system.errors import UserError
from talos.system.sizes import format_count, format_rounded_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT

RUNTIME, MOUNT_STATUSES = "runtime", "MountStatuses.block.talos.dev"
VOLUME_STATUSES = "VolumeStatuses.block.talos.dev"
BLOCKS, INODES = ("SIZE", "USED", "AVAILABLE", "USAGE"), ("INODES", "IUSED", "IFREE", "%IUSED")
WITHOUT_FILESYSTEM = {
    BlockVolumeType.VOLUME_TYPE_DIRECTORY: "directory",
    BlockVolumeType.VOLUME_TYPE_SYMLINK: "symlink",
    BlockVolumeType.VOLUME_TYPE_OVERLAY: "overlay",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A mounted volume and how full it is."""

    volume: str
    source: str
    target: str
    free: StorageServiceStatfsResponse


def run_diskfree(invocation: Invocation) -> int:
    """One row for each mounted volume that has a filesystem of its own."""
    flags = invocation.flags
    wanted = invocation.args[0] if invocation.args else ""
    is_inodes, is_bytes = flags.is_set("inodes"), flags.is_set("bytes")

    async def call(session: Session, node: str) -> list[Mounted]:
        if wanted:
            await _check_volume(session, node, wanted)
        statuses = await list_resources(session, node, RUNTIME, MOUNT_STATUSES)
        specs = [parse_spec(MountStatusSpec, status) for status in statuses]
        chosen = [
            spec
            for spec in specs
            if spec.source and not spec.detached and (not wanted or spec.spec.volume_id == wanted)
        ]
        if wanted and not chosen:
            raise UserError("is not mounted", where=f'volume "{wanted}"')
        return list(await asyncio.gather(*(_statfs(session, node, spec) for spec in chosen)))

    def rows(node: str, volumes: list[Mounted]) -> Iterable[Row]:
        for row in volumes:
            numbers = _numbers(row.free, is_inodes=is_inodes, is_bytes=is_bytes)
            yield (node, row.volume, row.source, *numbers, row.target)

    header = ("NODE", "VOLUME", "FILESYSTEM", *(INODES if is_inodes else BLOCKS), "MOUNT POINT")
    return run_table(invocation, header, call, rows)


async def _check_volume(session: Session, node: str, volume: str) -> None:
    """UserError when the volume has no filesystem to look at."""
    where = f'volume "{volume}"'
    try:
        status = await get_resource(session, node, RUNTIME, VOLUME_STATUSES, volume)
    except RpcError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        raise UserError("is not there", where=where, hint="talosctl get volumestatus lists them") from None
    spec = parse_spec(VolumeStatusSpec, status)
    if spec.phase != BlockVolumePhase.VOLUME_PHASE_READY:
        phase = BlockVolumePhase.Name(spec.phase).removeprefix("VOLUME_PHASE_").lower()
        raise UserError(f"is not ready (phase: {phase})", where=where)
    if spec.type in WITHOUT_FILESYSTEM:
        kind = WITHOUT_FILESYSTEM[spec.type]
        raise UserError(f"is a {kind} volume, which has no filesystem of its own", where=where)
    if spec.filesystem == BlockFilesystemType.FILESYSTEM_TYPE_SWAP:
        raise UserError("is a swap volume, which has no filesystem", where=where)


async def _statfs(session: Session, node: str, spec: MountStatusSpec) -> Mounted:
    request = StorageServiceStatfsRequest(path=spec.target)
    free = await session.unary(node, "/machine.StorageService/Statfs", request, StorageServiceStatfsResponse)
    return Mounted(volume=spec.spec.volume_id, source=spec.source, target=spec.target, free=free)


def _numbers(free: StorageServiceStatfsResponse, *, is_inodes: bool, is_bytes: bool) -> Row:
    if is_inodes:
        counts = (free.inodes, free.inodes_used, free.inodes_free)
        texts = [str(count) if is_bytes else format_count(count) for count in counts]
        return (*texts, _percent(free.inodes_used, free.inodes))
    sizes = (free.size, free.used, free.available)
    texts = [str(size) if is_bytes else format_rounded_size(size).replace(" ", "") for size in sizes]
    return (*texts, _percent(free.used, free.used + free.available))


def _percent(used: int, total: int) -> str:
    """As ``df`` has it: rounded up, of what an ordinary user may have."""
    return f"{-(-100 * used // total)}%" if total else "-"


COMMAND = Command(
    name="diskfree",
    aliases=("df",),
    usage="[volume ID]",
    summary="Show how full the volumes are",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="bytes", short="b", type=Type.BOOL, default="false", help="exact byte counts"),
        Flag(name="inodes", short="i", type=Type.BOOL, default="false", help="inodes instead of bytes"),
    ),
    maximum=1,
    run=run_diskfree,
)
