"""A node's numbers, fetched from it subject by subject: what one subject lacks does not hide the others.

The role os:reader suffices.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import RpcError
from talos.api.timestamps import read_duration
from talos.client.session import Session
from talos.fleet.calls import read_upgrade
from talos.resource import kinds
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.metrics.counts import fetch_counts
from talos.talosctl.metrics.families import Number, Numbers, Sample
from talos.talosctl.metrics.processes import fetch_processes
from talos.talosctl.metrics.volumes import fetch_volumes
from talos.talosctl.output.yaml_text import parse_yaml

SCRAPE_TIMEOUT = 8.0
"""Seconds for a node, below the ten that Prometheus waits by default."""
SECTOR = 512
"""Bytes of a sector in the kernel's counts, whatever the disk has (Documentation/block/stat.rst)."""

type Fetch = Callable[[SessionCalls, str], Awaitable[Numbers]]

_SERVICE = "/machine.MachineService/"


async def collect_node(session: Session, node: str) -> list[Sample]:
    """All samples of a node; ``talos_up`` is 0 when it answered nothing."""
    calls, began = SessionCalls(session), time.monotonic()

    async def fetch(subject: str, function: Fetch) -> Numbers:
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT):
                return await function(calls, node)
        except (RpcError, TimeoutError):
            return [("talos_scrape_failed", 1, {"subject": subject})]

    answers = await asyncio.gather(*(fetch(subject, function) for subject, function in _SUBJECTS.items()))
    numbers = [number for answer in answers for number in answer]
    is_up = any(name != "talos_scrape_failed" for name, _, _ in numbers)
    numbers.append(("talos_up", float(is_up), {}))
    numbers.append(("talos_scrape_duration_seconds", time.monotonic() - began, {}))
    return [Sample(name, value, {"node": node, **labels}) for name, value, labels in numbers]


async def _fetch_node(calls: SessionCalls, node: str) -> Numbers:
    reply = await calls.unary(node, _SERVICE + "Version", Empty(), machine.VersionResponse)
    version = next((part.version.tag for part in reply.messages), "")
    numbers: list[Number] = []
    for status in await calls.specs(node, kinds.MACHINE_STATUS):
        stage = RuntimeMachineStage.Name(status.stage).removeprefix("MACHINE_STAGE_").lower()
        numbers += [
            ("talos_node_info", 1, {"version": version, "stage": stage}),
            ("talos_node_ready", status.status.ready, {}),
        ]
        numbers += [
            ("talos_node_unmet_condition", 1, {"condition": condition.name})
            for condition in status.status.unmet_conditions
        ]
    for diagnostic in await calls.resources(node, kinds.DIAGNOSTIC):
        numbers.append(("talos_node_diagnostic", 1, {"id": diagnostic.metadata.id}))
    return numbers


async def _fetch_system(calls: SessionCalls, node: str) -> Numbers:
    stats = await calls.unary(node, _SERVICE + "SystemStat", Empty(), machine.SystemStatResponse)
    loads = await calls.unary(node, _SERVICE + "LoadAvg", Empty(), machine.LoadAvgResponse)
    numbers: list[Number] = []
    for stat in stats.messages:
        numbers += [
            ("talos_boot_time_seconds", stat.boot_time, {}),
            ("talos_context_switches_total", stat.context_switches, {}),
        ]
        for field in machine.CPUStat.DESCRIPTOR.fields:
            mode = field.name.replace("_", "")
            numbers.append(("talos_cpu_seconds_total", getattr(stat.cpu_total, field.name), {"mode": mode}))
    for load in loads.messages:
        for minutes in ("1", "5", "15"):
            numbers.append(("talos_load", getattr(load, f"load{minutes}"), {"minutes": minutes}))
    return numbers


_MEMORY = {
    "total": "memtotal",
    "available": "memavailable",
    "free": "memfree",
    "cached": "cached",
    "buffers": "buffers",
    "swap_total": "swaptotal",
    "swap_free": "swapfree",
}


async def _fetch_memory(calls: SessionCalls, node: str) -> Numbers:
    reply = await calls.unary(node, _SERVICE + "Memory", Empty(), machine.MemoryResponse)
    return [
        ("talos_memory_bytes", getattr(part.meminfo, field) * 1024, {"kind": kind})
        for part in reply.messages
        for kind, field in _MEMORY.items()
    ]


async def _fetch_disks(calls: SessionCalls, node: str) -> Numbers:
    reply = await calls.unary(node, _SERVICE + "DiskStats", Empty(), machine.DiskStatsResponse)
    numbers: list[Number] = []
    for disk in (disk for part in reply.messages for disk in part.devices):
        labels = {"device": disk.name}
        numbers += [
            ("talos_disk_read_bytes_total", disk.read_sectors * SECTOR, labels),
            ("talos_disk_written_bytes_total", disk.write_sectors * SECTOR, labels),
            ("talos_disk_io_seconds_total", disk.io_time_ms / 1000, labels),
        ]
    return numbers


async def _fetch_network(calls: SessionCalls, node: str) -> Numbers:
    path = _SERVICE + "NetworkDeviceStats"
    reply = await calls.unary(node, path, Empty(), machine.NetworkDeviceStatsResponse)
    numbers: list[Number] = []
    for link in (link for part in reply.messages for link in part.devices):
        labels = {"device": link.name}
        numbers += [
            ("talos_network_receive_bytes_total", link.rx_bytes, labels),
            ("talos_network_transmit_bytes_total", link.tx_bytes, labels),
            ("talos_network_errors_total", link.rx_errors, {**labels, "direction": "receive"}),
            ("talos_network_errors_total", link.tx_errors, {**labels, "direction": "transmit"}),
            ("talos_network_dropped_total", link.rx_dropped, {**labels, "direction": "receive"}),
            ("talos_network_dropped_total", link.tx_dropped, {**labels, "direction": "transmit"}),
        ]
    return numbers


async def _fetch_services(calls: SessionCalls, node: str) -> Numbers:
    reply = await calls.unary(node, _SERVICE + "ServiceList", Empty(), machine.ServiceListResponse)
    numbers: list[Number] = []
    for service in (service for part in reply.messages for service in part.services):
        labels = {"service": service.id}
        numbers.append(("talos_service_state", 1, {**labels, "state": service.state}))
        if not service.health.unknown:
            numbers.append(("talos_service_healthy", service.health.healthy, labels))
    return numbers


async def _fetch_time(calls: SessionCalls, node: str) -> Numbers:
    statuses = await calls.specs(node, kinds.TIME_STATUS)
    numbers: list[Number] = [("talos_time_synced", status.synced, {}) for status in statuses]
    for clock in await calls.specs(node, kinds.ADJTIME_STATUS):
        numbers += [
            ("talos_time_offset_seconds", read_duration(clock.offset), {}),
            ("talos_time_max_error_seconds", read_duration(clock.max_error), {}),
        ]
    return numbers


async def _fetch_dns(calls: SessionCalls, node: str) -> Numbers:
    numbers: list[Number] = []
    for resource in await calls.resources(node, kinds.DNS_UPSTREAM):
        # The kind has no message.
        upstream = cast("Mapping[str, Any]", parse_yaml(resource.spec.yaml_spec))
        address = str(upstream["addr"])
        numbers.append(("talos_dns_upstream_healthy", bool(upstream["healthy"]), {"address": address}))
    return numbers


async def _fetch_discovery(calls: SessionCalls, node: str) -> Numbers:
    members = await calls.resources(node, kinds.MEMBER)
    affiliates = await calls.resources(node, kinds.AFFILIATE)
    return [
        ("talos_discovery_members", len(members), {}),
        ("talos_discovery_affiliates", len(affiliates), {}),
    ]


async def _fetch_etcd(calls: SessionCalls, node: str) -> Numbers:
    services = await calls.unary(node, _SERVICE + "ServiceList", Empty(), machine.ServiceListResponse)
    if not any(service.id == "etcd" for part in services.messages for service in part.services):
        return []
    reply = await calls.unary(node, _SERVICE + "EtcdStatus", Empty(), machine.EtcdStatusResponse)
    numbers: list[Number] = []
    for status in (part.member_status for part in reply.messages):
        numbers += [
            ("talos_etcd_db_size_bytes", status.db_size, {}),
            ("talos_etcd_db_in_use_bytes", status.db_size_in_use, {}),
            ("talos_etcd_is_leader", status.leader == status.member_id, {}),
            ("talos_etcd_is_learner", status.is_learner, {}),
            ("talos_etcd_raft_applied_index", status.raft_applied_index, {}),
            ("talos_etcd_errors", len(status.errors), {}),
        ]
    return numbers


async def _fetch_upgrade(calls: SessionCalls, node: str) -> Numbers:
    upgrade = await read_upgrade(calls, node)
    if upgrade is None:
        return []
    return [("talos_upgrade_phase", 1, {"phase": upgrade.phase.value, "version": upgrade.version})]


_SUBJECTS: dict[str, Fetch] = {
    "node": _fetch_node,
    "system": _fetch_system,
    "memory": _fetch_memory,
    "disks": _fetch_disks,
    "network": _fetch_network,
    "volumes": fetch_volumes,
    "processes": fetch_processes,
    "services": _fetch_services,
    "time": _fetch_time,
    "dns": _fetch_dns,
    "discovery": _fetch_discovery,
    "etcd": _fetch_etcd,
    "counts": fetch_counts,
    "upgrade": _fetch_upgrade,
}
