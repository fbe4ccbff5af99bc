"""What the fleet page shows of a node, fetched at once. The role os:reader suffices, nothing is secret."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.definitions.runtime_pb2 import DiagnosticSpec, MachineStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.fleet.calls import NodeStatus, fetch_status
from talos.resource import kinds
from talos.resource.yaml.enums import format_stage
from talos.system.errors import UserError
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.dashboard.figures import SECTOR, find_cards, make_rate, make_shares, sum_disks
from talos.talosctl.dashboard.summary import clean
from talos.upgrade.state import IDLE, PENDING, Phase, Upgrade, find_default

VIEW_TIMEOUT = 10.0
"""Seconds for everything that is fetched from a node."""
MAX_TEXT = 300
"""Characters of a message."""
KIBIBYTE = 1024
_SERVICE = "/machine.MachineService/"
_AT_REST = ("Skipped", "Finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service; ``is_healthy`` is None where nothing checks it."""

    name: str
    state: str
    is_healthy: bool | None
    message: str

    @property
    def is_good(self) -> bool:
        """Whether it does what it is there for, or has nothing to do."""
        return self.state in _AT_REST or (self.state == "Running" and self.is_healthy is not False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What has grown since the node's start; ``at`` is in seconds of the monotonic clock here."""

    at: float
    cpu: machine.CPUStat
    disk: int
    """Bytes read and written."""
    network: int
    """Bytes received and sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A node. ``error`` is why it does not answer: the rest is then of the last look that it answered."""

    node: str
    error: str = ""
    name: str = ""
    role: str = ""
    version: str = ""
    stage: str = ""
    is_ready: bool = False
    upgrade: Upgrade = IDLE
    services: Sequence[Service] = ()
    problems: Sequence[str] = ()
    """Unmet conditions, diagnostics, services that are not healthy."""
    etcd: str = ""
    """``leader``, ``voter`` or ``learner``; empty on a worker, and while etcd does not answer."""
    alarms: Sequence[str] = ()
    kubernetes: str = ""
    """``Ready``, ``not Ready``, with ``, cordoned``; empty before it has registered."""
    counters: Counters | None = None
    busy: float = 0.0
    memory: float = 0.0
    """Percent of all processors since the look before, and of memory in use."""
    disk: float = 0.0
    network: float = 0.0
    """KiB a second since the look before, in both directions together."""

    @property
    def slot(self) -> str:
        """The slot that runs; empty while there was no upgrade."""
        return self.upgrade.slot if self.upgrade.phase is Phase.TRIAL else find_default(self.upgrade)

    def document(self) -> dict[str, Any]:
        """What the page gets."""
        upgrade = self.upgrade
        return {
            "node": self.node,
            "error": self.error,
            "name": self.name or self.node,
            "role": self.role,
            "version": self.version,
            "slot": self.slot,
            "stage": self.stage,
            "ready": self.is_ready,
            "phase": upgrade.phase.value,
            "target": upgrade.version,
            "previous": upgrade.previous_version,
            "pending": upgrade.phase in PENDING,
            "reason": clean(upgrade.reason),
            "services": [
                [one.name, one.state, one.is_healthy, one.is_good, one.message] for one in self.services
            ],
            "problems": list(self.problems),
            "etcd": self.etcd,
            "alarms": list(self.alarms),
            "kubernetes": self.kubernetes,
            "busy": round(self.busy),
            "memory": round(self.memory),
            "disk": round(self.disk),
            "network": round(self.network),
        }


async def fetch_view(target: Target, node: str, before: View | None) -> View:
    """A node now; when it does not answer, what was known before with the reason."""
    try:
        async with asyncio.timeout(VIEW_TIMEOUT), open_session(target) as session:
            return await _fetch_view(SessionCalls(session), node, before)
    except TimeoutError:
        error = f"no answer within {VIEW_TIMEOUT:g} s"
    except (RpcError, UserError) as failure:
        error = shorten(describe(failure, target))
    return replace(before or View(node=node), error=error)


async def _fetch_view(calls: SessionCalls, node: str, before: View | None) -> View:
    (status, machines, diagnostics, nodes), (found, memory, counters) = await asyncio.gather(
        _fetch_resources(calls, node), _fetch_figures(calls, node)
    )
    services = [_make_service(one) for part in found.messages for one in part.services]
    conditions = [one for state in machines for one in state.status.unmet_conditions]
    info = next((part.meminfo for part in memory.messages), machine.MemInfo())
    earlier = before.counters if before else None
    seconds = counters.at - earlier.at if earlier else 0.0
    etcd, alarms = await _fetch_etcd(calls, node) if any(one.name == "etcd" for one in services) else ("", ())
    return View(
        node=node,
        name=clean(status.hostname),
        role="controlplane" if status.is_control_plane else "worker",
        version=clean(status.version),
        stage=next((format_stage(state.stage) for state in machines), ""),
        is_ready=any(state.status.ready for state in machines),
        upgrade=status.upgrade or IDLE,
        services=services,
        problems=[
            *(shorten(f"{one.name}: {one.reason}") for one in conditions),
            *(shorten(one.message) for one in diagnostics),
            *(f"service {one.name}: {one.message or one.state}" for one in services if not one.is_good),
        ],
        etcd=etcd,
        alarms=alarms,
        kubernetes=next(
            (
                ("Ready" if one.node_ready else "not Ready") + (", cordoned" if one.unschedulable else "")
                for one in nodes
            ),
            "",
        ),
        counters=counters,
        busy=make_shares(earlier.cpu if earlier else machine.CPUStat(), counters.cpu)[0],
        memory=100 * max(info.memtotal - info.memavailable, 0) / info.memtotal if info.memtotal else 0.0,
        disk=make_rate(earlier.disk, counters.disk, seconds) / KIBIBYTE if earlier else 0.0,
        network=make_rate(earlier.network, counters.network, seconds) / KIBIBYTE if earlier else 0.0,
    )


async def _fetch_resources(
    calls: SessionCalls, node: str
) -> tuple[NodeStatus, Sequence[MachineStatusSpec], Sequence[DiagnosticSpec], Sequence[NodeStatusSpec]]:
    return await asyncio.gather(
        fetch_status(calls, node),
        calls.specs(node, kinds.MACHINE_STATUS),
        calls.specs(node, kinds.DIAGNOSTIC),
        calls.specs(node, kinds.NODE_STATUS),
    )


async def _fetch_figures(
    calls: SessionCalls, node: str
) -> tuple[machine.ServiceListResponse, machine.MemoryResponse, Counters]:
    return await asyncio.gather(
        calls.unary(node, _SERVICE + "ServiceList", Empty(), machine.ServiceListResponse),
        calls.unary(node, _SERVICE + "Memory", Empty(), machine.MemoryResponse),
        _fetch_counters(calls, node),
    )


async def _fetch_counters(calls: SessionCalls, node: str) -> Counters:
    stats, disks, links = await asyncio.gather(
        calls.unary(node, _SERVICE + "SystemStat", Empty(), machine.SystemStatResponse),
        calls.unary(node, _SERVICE + "DiskStats", Empty(), machine.DiskStatsResponse),
        calls.unary(node, _SERVICE + "NetworkDeviceStats", Empty(), machine.NetworkDeviceStatsResponse),
    )
    disk = sum_disks(next(iter(disks.messages), machine.DiskStats()))
    found = [link for part in links.messages for link in part.devices]
    cards = find_cards([link.name for link in found])
    return Counters(
        at=time.monotonic(),
        cpu=next((part.cpu_total for part in stats.messages), machine.CPUStat()),
        disk=(disk.read_sectors + disk.write_sectors) * SECTOR,
        network=sum(link.rx_bytes + link.tx_bytes for link in found if link.name in cards),
    )


async def _fetch_etcd(calls: SessionCalls, node: str) -> tuple[str, Sequence[str]]:
    """The member's role and what it complains of; nothing while it does not answer."""
    reply = await _fetch(calls.unary(node, _SERVICE + "EtcdStatus", Empty(), machine.EtcdStatusResponse))
    for member in (part.member_status for part in reply.messages) if reply else ():
        is_leader = member.leader == member.member_id
        role = "learner" if member.is_learner else "leader" if is_leader else "voter"
        return role, [shorten(error) for error in member.errors]
    return "", ()


async def _fetch[T](call: Awaitable[T]) -> T | None:
    try:
        return await call
    except RpcError:
        return None


def _make_service(one: machine.ServiceInfo) -> Service:
    return Service(
        name=clean(one.id),
        state=one.state,
        is_healthy=None if one.health.unknown else one.health.healthy,
        message=shorten(one.health.last_message),
    )


def shorten(text: str) -> str:
    """A message of a node for the page: without what is not to be shown, and not too long."""
    return clean(text)[:MAX_TEXT]
