"""Texts of a support bundle, with upstream's columns: who reads its archives looks for them."""

from collections.abc import Iterable, Iterator

from talos.api.machine.machine_pb2 import (
    DiskStats,
    DiskStatsResponse,
    Mounts,
    MountsResponse,
    Process,
    ProcessesResponse,
    ServiceInfo,
    Version,
    VersionResponse,
)
from talos.talosctl.client.command import Row, parts
from talos.talosctl.client_version import client_version
from talos.talosctl.commands import mounts, processes
from talos.talosctl.commands.service import status_rows
from talos.talosctl.output.table import format_table
from talos.talosctl.output.version_text import format_version

_DISK_HEADER = ("NAME", "IO_TIME", "IO_TIME_WEIGHTED", "DISK_WRITE_SECTORS", "DISK_READ_SECTORS")
_LABEL = processes.HEADER.index("LABEL")


def format_summary(reply: VersionResponse) -> str:
    """The versions of this program and of the node."""
    version = client_version()
    platform = f"{version.os}/{version.arch}"
    text = f"Client:\n{format_version(version.tag, version.sha, version.built, version.language, platform)}"
    text += "Server:\n"
    for part in parts(reply, Version):
        info = part.version
        platform = f"{info.os}/{info.arch}"
        text += format_version(info.tag, info.sha, info.built, info.go_version, platform)
    return text


def format_mounts(reply: MountsResponse) -> str:
    """What is mounted and how full it is, without filesystems that have no size."""
    stats = [stat for part in parts(reply, Mounts) for stat in part.stats if stat.size]
    return format_table(row[1:] for row in (mounts.HEADER, *mounts.make_rows("", stats)))


def format_processes(reply: ProcessesResponse) -> str:
    """The processes in the node's order."""
    found = [process for part in parts(reply, Process) for process in part.processes]
    rows = (processes.HEADER, *(processes.make_row("", process) for process in found))
    return format_table((*row[1:_LABEL], *row[_LABEL + 1 :]) for row in rows)


def format_disks(reply: DiskStatsResponse) -> str:
    """How busy the disks were since the node started; times in milliseconds."""

    def rows() -> Iterator[Row]:
        for part in parts(reply, DiskStats):
            for disk in part.devices:
                times = disk.io_time_ms, disk.io_time_weighted_ms
                yield (disk.name, *map(str, (*times, disk.write_sectors, disk.read_sectors)))

    return format_table([_DISK_HEADER, *rows()])


def format_state(service: ServiceInfo) -> str:
    """A service's state, health and latest events."""
    rows: Iterable[Row] = status_rows("", service)
    return format_table(list(rows)[1:])
