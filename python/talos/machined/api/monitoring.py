"""The kernel's counters: of processors, memory, mounts, disks and network interfaces."""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Handler
from talos.machined.api.paths import make_text
from talos.machined.api.pump import in_thread
from talos.machined.node.ports.node import Node
from talos.system.files import Files
from talos.system.proc.counters import DiskCounters, LinkCounters, parse_diskstats, parse_netdev, sum_counters
from talos.system.proc.cpuinfo import parse_cpuinfo, read_cpu_frequencies
from talos.system.proc.meminfo import make_plain_name, parse_meminfo
from talos.system.proc.mounts import Mount, parse_mounts
from talos.system.proc.stat import parse_loadavg, parse_stat


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    counters: Mapping[str, Callable[[Files], Message]] = {
        "SystemStat": read_system_stat,
        "LoadAvg": read_load_avg,
        "Memory": read_memory,
        "DiskStats": read_disk_stats,
        "NetworkDeviceStats": read_network_device_stats,
    }
    # Reading the frequency of every processor and the usage of every filesystem may take long.
    waiting: Mapping[str, Callable[[Files], Message]] = {
        "CPUInfo": read_cpu_info,
        "CPUFreqStats": read_cpu_freq_stats,
        "Mounts": read_mounts,
    }
    files = node.ports.files
    return {name: make_handler(files, read) for name, read in counters.items()} | {
        name: make_waiting_handler(files, read) for name, read in waiting.items()
    }


def make_handler(files: Files, read: Callable[[Files], Message]) -> Handler:
    """A handler that replies with what a function reads from /proc or /sys."""

    async def handle(_request: Empty, _call: Call) -> Message:
        return read(files)

    return handle


def make_waiting_handler(files: Files, read: Callable[[Files], Message]) -> Handler:
    """The same for a function that may wait, in a thread."""

    async def handle(_request: Empty, _call: Call) -> Message:
        return await in_thread(read, files)

    return handle


def read_system_stat(files: Files) -> pb.SystemStatResponse:
    """Times in seconds, the rest are counts."""
    found = parse_stat(files.read("/proc/stat"))
    message = pb.SystemStat(
        boot_time=found.boot_time,
        cpu_total=pb.CPUStat(**asdict(found.cpu_total)),
        cpu=[pb.CPUStat(**asdict(times)) for times in found.cpu],
        irq_total=found.irq_total,
        irq=found.irq,
        context_switches=found.context_switches,
        process_created=found.process_created,
        process_running=found.process_running,
        process_blocked=found.process_blocked,
        soft_irq_total=found.soft_irq_total,
        soft_irq=pb.SoftIRQStat(**asdict(found.soft_irq)),
    )
    return pb.SystemStatResponse(messages=[message])


def read_cpu_info(files: Files) -> pb.CPUInfoResponse:
    """One entry a logical processor."""
    found = [pb.CPUInfo(**asdict(info)) for info in parse_cpuinfo(files.read("/proc/cpuinfo"))]
    return pb.CPUInfoResponse(messages=[pb.CPUsInfo(cpu_info=found)])


def read_cpu_freq_stats(files: Files) -> pb.CPUFreqStatsResponse:
    """In kHz, as sysfs has them."""
    found = [pb.CPUFreqStats(**asdict(frequency)) for frequency in read_cpu_frequencies(files)]
    return pb.CPUFreqStatsResponse(messages=[pb.CPUsFreqStats(cpu_freq_stats=found)])


def read_load_avg(files: Files) -> pb.LoadAvgResponse:
    """The three averages."""
    one, five, fifteen = parse_loadavg(files.read("/proc/loadavg"))
    return pb.LoadAvgResponse(messages=[pb.LoadAvg(load1=one, load5=five, load15=fifteen)])


def read_memory(files: Files) -> pb.MemoryResponse:
    """In kB; the fields carry the kernel's names without punctuation."""
    known = pb.MemInfo.DESCRIPTOR.fields_by_name
    values = {
        name: value
        for key, value in parse_meminfo(files.read("/proc/meminfo")).items()
        if (name := make_plain_name(key)) in known
    }
    return pb.MemoryResponse(messages=[pb.Memory(meminfo=pb.MemInfo(**values))])


def read_mounts(files: Files) -> pb.MountsResponse:
    """Size and room of every mounted directory, in bytes.

    Mounts over a file, and those whose statfs fails, are left out.
    """
    found = [_make_mount(mount) for mount in parse_mounts(files.read("/proc/mounts"))]
    return pb.MountsResponse(messages=[pb.Mounts(stats=[mount for mount in found if mount is not None])])


def _make_mount(mount: Mount) -> pb.MountStat | None:
    try:
        if not stat.S_ISDIR(Path(mount.target).stat().st_mode):
            return None
        room = os.statvfs(mount.target)
    except OSError:
        return None
    return pb.MountStat(
        filesystem=make_text(mount.source),
        size=room.f_blocks * room.f_frsize,
        available=room.f_bavail * room.f_frsize,
        mounted_on=make_text(mount.target),
    )


def read_disk_stats(files: Files) -> pb.DiskStatsResponse:
    """Every block device, partitions too, and the sum of all rows."""
    found = parse_diskstats(files.read("/proc/diskstats"))
    message = pb.DiskStats(
        total=pb.DiskStat(**asdict(sum_counters(DiskCounters, "", found))),
        devices=[pb.DiskStat(**asdict(disk)) for disk in found],
    )
    return pb.DiskStatsResponse(messages=[message])


def read_network_device_stats(files: Files) -> pb.NetworkDeviceStatsResponse:
    """Every interface, and a total whose name lists them all."""
    found = sorted(parse_netdev(files.read("/proc/net/dev")), key=lambda link: link.name)
    names = ", ".join(link.name for link in found)
    message = pb.NetworkDeviceStats(
        total=pb.NetDev(**asdict(sum_counters(LinkCounters, names, found))),
        devices=[pb.NetDev(**asdict(link)) for link in found],
    )
    return pb.NetworkDeviceStatsResponse(messages=[message])
