"""``talosctl memory``."""

from collections.abc import Iterable

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import MemInfo, Memory, MemoryResponse
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, parts, run_each, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS, OUTPUT
from talos.talosctl.output import console

HEADER = ("NODE", "TOTAL", "USED", "FREE", "SHARED", "BUFFERS", "CACHE", "AVAILABLE")

# /proc/meminfo's names for the fields whose case the API lost; others are capitalized.
_NAMES = {
    "memtotal": "MemTotal",
    "memfree": "MemFree",
    "memavailable": "MemAvailable",
    "swapcached": "SwapCached",
    "activeanon": "ActiveAnon",
    "inactiveanon": "InactiveAnon",
    "activefile": "ActiveFile",
    "inactivefile": "InactiveFile",
    "swaptotal": "SwapTotal",
    "swapfree": "SwapFree",
    "anonpages": "AnonPages",
    "sreclaimable": "SReclaimable",
    "sunreclaim": "SUnreclaim",
    "kernelstack": "KernelStack",
    "pagetables": "PageTables",
    "nfsunstable": "NFSUnstable",
    "writebacktmp": "WritebackTmp",
    "commitlimit": "CommitLimit",
    "committedas": "CommittedAS",
    "vmalloctotal": "VmallocTotal",
    "vmallocused": "VmallocUsed",
    "vmallocchunk": "VmallocChunk",
    "hardwarecorrupted": "HardwareCorrupted",
    "anonhugepages": "AnonHugePages",
    "shmemhugepages": "ShmemHugePages",
    "shmempmdmapped": "ShmemPmdMapped",
    "cmatotal": "CmaTotal",
    "cmafree": "CmaFree",
    "hugepagestotal": "HugePagesTotal",
    "hugepagesfree": "HugePagesFree",
    "hugepagesrsvd": "HugePagesRsvd",
    "hugepagessurp": "HugePagesSurp",
    "hugepagesize": "Hugepagesize",
    "directmap4k": "DirectMap4k",
    "directmap2m": "DirectMap2M",
    "directmap1g": "DirectMap1G",
}
_COUNTS = frozenset({"hugepagestotal", "hugepagesfree", "hugepagesrsvd", "hugepagessurp"})
"""Fields that count pages; all others are in KiB."""


def run_memory(invocation: Invocation) -> int:
    """One row a node in MiB, or with --verbose all that the kernel counts."""
    if invocation.flags.is_set("verbose"):
        return run_each(invocation, _fetch, _show_all)
    return run_table(invocation, HEADER, _fetch, _rows)


async def _fetch(session: Session, node: str) -> list[MemInfo]:
    reply = await session.unary(node, "/machine.MachineService/Memory", Empty(), MemoryResponse)
    return [part.meminfo for part in parts(reply, Memory)]


def _rows(node: str, infos: list[MemInfo]) -> Iterable[Row]:
    for info in infos:
        used = info.memtotal - info.memfree - info.cached - info.buffers
        sizes = (info.memtotal, used, info.memfree, info.shmem, info.buffers, info.cached, info.memavailable)
        yield (node, *(str(size // 1024) for size in sizes))


def _show_all(node: str, infos: list[MemInfo]) -> None:
    for info in infos:
        console.write_line(f"NODE: {node}\n")
        for field in MemInfo.DESCRIPTOR.fields:
            name = _NAMES.get(field.name, field.name.capitalize())
            unit = "" if field.name in _COUNTS else " kB"
            console.write_line(f"{name}: {getattr(info, field.name)}{unit}")
        console.write_line()


COMMAND = Command(
    name="memory",
    aliases=("m", "free"),
    summary="Show how much memory is in use",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        *INSECURE_FLAGS,
        Flag(name="verbose", short="v", type=Type.BOOL, default="false", help="everything the kernel counts"),
    ),
    exclusive=(("verbose", "output"),),
    run=run_memory,
)
