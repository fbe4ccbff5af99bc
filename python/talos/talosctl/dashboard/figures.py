"""Figures of a node: what its counters show, and how fast they grow between two samples."""

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import (
    CPUStat,
    DiskStat,
    DiskStats,
    DiskStatsResponse,
    LoadAvg,
    LoadAvgResponse,
    Memory,
    MemoryResponse,
    NetDev,
    NetworkDeviceStats,
    NetworkDeviceStatsResponse,
    Process,
    ProcessesResponse,
    ProcessInfo,
    SystemStat,
    SystemStatResponse,
)
from talos.client.session import Session
from talos.talosctl.client.command import parts

SECTOR = 512
"""Bytes, whatever the disk's own sectors are (the kernel's Documentation/block/stat.rst)."""
_CARD = re.compile(r"eth|en(?!i)|ib|usb|wl|ww")
"""How the kernel and udev name a network card; ``eni`` begins the names of pods' links in a cloud."""
_PARTITION = re.compile(r"(.*\d)p\d+|(.*\D)\d+")
_STACKED = ("dm-", "loop", "md", "ram", "zram")
"""How devices begin that pass what they get to disks, files or memory."""
_SERVICE = "/machine.MachineService/"
_TIMEOUT = 10.0
"""Seconds for one answer; a node that takes longer is shown as one that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A node's counters at one moment; ``at`` is in seconds of the monotonic clock."""

    at: float
    system: SystemStat
    load: LoadAvg
    memory: Memory
    disks: DiskStats
    network: NetworkDeviceStats
    processes: Sequence[ProcessInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """Bytes a second that an interface receives and sends."""

    name: str
    received: float
    sent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessShare:
    """A process and the part of one processor it uses, in percent; -1 while that is not known."""

    process: ProcessInfo
    percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is shown. Shares are percent of all processors, rates are per second, sizes are bytes."""

    busy: float
    user: float
    system: float
    waiting: float
    processors: Sequence[float]
    load: tuple[float, float, float]
    memory_total: int
    memory_used: int
    memory_cached: int
    links: Sequence[LinkRate]
    read: float
    written: float
    switches: float
    forks: float
    running: int
    blocked: int
    processes: Sequence[ProcessShare]

    @property
    def received(self) -> float:
        """Of all network cards."""
        return sum(link.received for link in self._cards)

    @property
    def sent(self) -> float:
        """Of all network cards."""
        return sum(link.sent for link in self._cards)

    @property
    def _cards(self) -> list[LinkRate]:
        cards = find_cards([link.name for link in self.links])
        return [link for link in self.links if link.name in cards]

    @property
    def memory_percent(self) -> float:
        """Of all memory, what can't be had without swapping."""
        return 100 * self.memory_used / self.memory_total if self.memory_total else 0.0


def find_cards(names: Collection[str]) -> Collection[str]:
    """Those interfaces that are cards by their names, or else all but the loopback's.

    What pods send is counted by a link of the pod, a bridge and a tunnel as well.
    """
    return [name for name in names if _CARD.match(name)] or [name for name in names if name != "lo"]


def sum_disks(stats: DiskStats) -> DiskStat:
    """What disks have read and written. The total of a node has partitions and what is made of disks, too."""
    names = {device.name for device in stats.devices}
    disks = [device for device in stats.devices if _is_disk(device.name, names)]
    return DiskStat(
        read_sectors=sum(disk.read_sectors for disk in disks),
        write_sectors=sum(disk.write_sectors for disk in disks),
    )


def _is_disk(name: str, names: Collection[str]) -> bool:
    partition = _PARTITION.fullmatch(name)
    return not name.startswith(_STACKED) and not (partition and (partition[1] or partition[2]) in names)


async def take_sample(session: Session, node: str) -> Sample:
    """Fetch all counters at once; RpcError when one can't be had."""
    system, load, memory, disks, network, processes = await asyncio.gather(
        session.unary(node, _SERVICE + "SystemStat", Empty(), SystemStatResponse, timeout=_TIMEOUT),
        session.unary(node, _SERVICE + "LoadAvg", Empty(), LoadAvgResponse, timeout=_TIMEOUT),
        session.unary(node, _SERVICE + "Memory", Empty(), MemoryResponse, timeout=_TIMEOUT),
        session.unary(node, _SERVICE + "DiskStats", Empty(), DiskStatsResponse, timeout=_TIMEOUT),
        session.unary(
            node, _SERVICE + "NetworkDeviceStats", Empty(), NetworkDeviceStatsResponse, timeout=_TIMEOUT
        ),
        session.unary(node, _SERVICE + "Processes", Empty(), ProcessesResponse, timeout=_TIMEOUT),
    )
    return Sample(
        at=time.monotonic(),
        system=next(iter(parts(system, SystemStat)), SystemStat()),
        load=next(iter(parts(load, LoadAvg)), LoadAvg()),
        memory=next(iter(parts(memory, Memory)), Memory()),
        disks=next(iter(parts(disks, DiskStats)), DiskStats()),
        network=next(iter(parts(network, NetworkDeviceStats)), NetworkDeviceStats()),
        processes=[process for part in parts(processes, Process) for process in part.processes],
    )


def make_figures(before: Sample | None, now: Sample) -> Figures:
    """Figures of now; without an earlier sample the shares are those since the node's start, the rates 0."""
    seconds = now.at - before.at if before else 0.0
    earlier = before.system if before else SystemStat()
    busy, user, system, waiting = make_shares(earlier.cpu_total, now.system.cpu_total)
    cores = [*earlier.cpu, *(CPUStat() for _ in range(len(now.system.cpu) - len(earlier.cpu)))]
    old = sum_disks(before.disks if before else DiskStats())
    disk = sum_disks(now.disks)
    info = now.memory.meminfo
    return Figures(
        busy=busy,
        user=user,
        system=system,
        waiting=waiting,
        processors=[make_shares(*pair)[0] for pair in zip(cores, now.system.cpu, strict=False)],
        load=(now.load.load1, now.load.load5, now.load.load15),
        memory_total=info.memtotal * 1024,
        memory_used=max(info.memtotal - info.memavailable, 0) * 1024,
        memory_cached=(info.cached + info.buffers) * 1024,
        links=_link_rates(before.network.devices if before else (), now.network.devices, seconds),
        read=make_rate(old.read_sectors, disk.read_sectors, seconds) * SECTOR,
        written=make_rate(old.write_sectors, disk.write_sectors, seconds) * SECTOR,
        switches=make_rate(earlier.context_switches, now.system.context_switches, seconds),
        forks=make_rate(earlier.process_created, now.system.process_created, seconds),
        running=now.system.process_running,
        blocked=now.system.process_blocked,
        processes=_process_shares(before.processes if before else (), now.processes, seconds),
    )


def make_shares(before: CPUStat, now: CPUStat) -> tuple[float, float, float, float]:
    """Busy, user, system and waiting for disks, in percent. Guests' time is part of user's already."""
    user = now.user + now.nice - before.user - before.nice
    system = now.system + now.irq + now.soft_irq - before.system - before.irq - before.soft_irq
    stolen = now.steal - before.steal
    waiting = now.iowait - before.iowait
    idle = now.idle - before.idle
    total = user + system + stolen + waiting + idle
    if total <= 0:
        return 0.0, 0.0, 0.0, 0.0
    values = (user + system + stolen, user, system, waiting)
    busy, user, system, waiting = (min(max(100 * value / total, 0.0), 100.0) for value in values)
    return busy, user, system, waiting


def make_rate(before: int, now: int, seconds: float) -> float:
    """Per second; a counter that fell was reset."""
    return (now - before) / seconds if seconds > 0 and now >= before else 0.0


def _link_rates(before: Sequence[NetDev], now: Sequence[NetDev], seconds: float) -> list[LinkRate]:
    old = {link.name: link for link in before}
    return [
        LinkRate(
            name=link.name,
            received=make_rate(old[link.name].rx_bytes, link.rx_bytes, seconds) if link.name in old else 0.0,
            sent=make_rate(old[link.name].tx_bytes, link.tx_bytes, seconds) if link.name in old else 0.0,
        )
        for link in now
    ]


def _process_shares(
    before: Sequence[ProcessInfo], now: Sequence[ProcessInfo], seconds: float
) -> list[ProcessShare]:
    """The busiest first, then the largest."""
    old: Mapping[int, ProcessInfo] = {process.pid: process for process in before}
    found: list[ProcessShare] = []
    for process in now:
        earlier = old.get(process.pid)
        is_same = earlier is not None and earlier.cpu_time <= process.cpu_time and seconds > 0
        share = 100 * (process.cpu_time - earlier.cpu_time) / seconds if earlier and is_same else -1.0
        found.append(ProcessShare(process=process, percent=share))
    return sorted(found, key=lambda one: (one.percent, one.process.resident_memory), reverse=True)
