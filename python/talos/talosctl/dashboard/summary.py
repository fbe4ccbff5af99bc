"""The summary of a node: titled lists of labels and values, made from what is known of it."""

import ipaddress
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.durations import format_duration
from talos.resource import ids, kinds
from talos.resource.objects import is_ready, to_plain
from talos.resource.yaml.enums import format_machine_type, format_stage
from talos.system.sizes import format_pretty_size
from talos.system.terminal import remove_escapes
from talos.talosctl.dashboard.feed import NodeView

UNKNOWN = "n/a"
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Line:
    """A label, its value, and whether that is as it should be; None where there is no good or bad."""

    label: str
    value: str
    is_good: bool | None = None


def clean(text: str) -> str:
    """Text of a node without what controls a terminal: escape sequences, control and direction characters."""
    return _UNPRINTABLE.sub("", remove_escapes(text.replace("\t", "    ")))


def make_title(view: NodeView) -> str:
    """One line: name, version, how long it runs, processors, memory, load."""
    name = view.one(ids.HOSTNAME_STATUS)
    version = view.one(ids.VERSION)
    pieces = [f"{name.hostname if name else view.node} ({version.version if version else UNKNOWN})"]
    if view.boot_time:
        pieces.append(f"up {format_duration(max(round(time.time()) - view.boot_time, 0))}")
    if cores := view.processors.cpu_info:
        pieces.append(f"{len(cores)} x {max(core.cpu_mhz for core in cores) / 1000:.1f} GHz")
    if view.history:
        now = view.history[-1]
        pieces += [
            f"{format_pretty_size(now.memory_total)} memory",
            f"{len(now.processes)} processes",
            f"processors {now.busy:.0f} %",
            f"memory {now.memory_percent:.0f} %",
        ]
    return clean(": ".join((pieces[0], ", ".join(pieces[1:]))) if len(pieces) > 1 else pieces[0])


def describe_machine(view: NodeView) -> list[Line]:
    """What the machine is and whether it is ready."""
    status, kind = view.one(ids.MACHINE_STATUS), view.one(ids.MACHINE_TYPE)
    hardware, cluster = view.one(ids.SYSTEM_INFORMATION), view.one(ids.CLUSTER_INFO)
    security = view.one(ids.SECURITY_STATE)
    members = view.all(kinds.MEMBER)
    links = view.all(kinds.SIDEROLINK_STATUS).values()
    lines = [
        Line("UUID", hardware.uuid if hardware and hardware.uuid else UNKNOWN),
        Line(
            "CLUSTER", f"{cluster.cluster_name or UNKNOWN} ({len(members)} members)" if cluster else UNKNOWN
        ),
        Line(
            "TYPE",
            format_machine_type(kind.machine_type) if kind else UNKNOWN,
        ),
        Line("STAGE", format_stage(status.stage) if status else UNKNOWN),
        Line(
            "READY", _yes(status.status.ready) if status else UNKNOWN, status.status.ready if status else None
        ),
    ]
    if status:
        lines += [Line("", f"{one.name}: {one.reason}", False) for one in status.status.unmet_conditions]
    if security:
        lines.append(Line("SECUREBOOT", _yes(security.secure_boot)))
    lines += [
        Line("SIDEROLINK", f"{link.host}: {_connected(link.connected)}", link.connected) for link in links
    ]
    lines += [Line("PROBLEM", one.message, False) for one in view.all(kinds.DIAGNOSTIC).values()]
    return [Line(line.label, clean(line.value), line.is_good) for line in lines]


def describe_kubernetes(view: NodeView) -> list[Line]:
    """The node of Kubernetes, its kubelet and the pods of its control plane."""
    services = view.all(kinds.SERVICE)
    lines: list[Line] = []
    for name, node in view.all(kinds.NODE_STATUS).items():
        state = f"{'Ready' if node.node_ready else 'NotReady'}{', cordoned' if node.unschedulable else ''}"
        lines.append(Line("NODE", f"{name} {state}", node.node_ready))
    kubelet = services.get("kubelet")
    if kubelet:
        lines.append(Line("KUBELET", *_health(kubelet.running, kubelet.healthy, kubelet.unknown)))
    for name, pod in view.all(kinds.STATIC_POD_STATUS).items():
        short = name.rpartition("/")[2]
        ready = is_ready(to_plain(pod.pod_status))
        lines.append(Line("POD", f"{short} {'Ready' if ready else 'NotReady'}", ready))
    return [Line(line.label, clean(line.value), line.is_good) for line in lines] or [Line("", "not there")]


def describe_network(view: NodeView) -> list[Line]:
    """Name, addresses, gateways, servers, and what is missing."""
    name, status = view.one(ids.HOSTNAME_STATUS), view.one(ids.NETWORK_STATUS)
    addresses = view.one(ids.NODE_ADDRESS_ROUTED) or view.one(ids.NODE_ADDRESS_CURRENT)
    resolvers, clocks = view.one(ids.RESOLVER_STATUS), view.one(ids.TIME_SERVER_STATUS)
    synced = view.one(ids.TIME_STATUS)
    gateways = {
        format_address(route.gateway.ip)
        for route in view.all(kinds.ROUTE_STATUS).values()
        if route.gateway.ip and not route.destination.ip
    }
    ready = status and status.address_ready and status.connectivity_ready
    lines = [
        Line("HOST", ".".join(filter(None, (name.hostname, name.domainname))) if name else UNKNOWN),
        Line("IP", join(map(format_prefix, addresses.addresses)) if addresses else UNKNOWN),
        Line("GATEWAY", join(sorted(gateways))),
        Line("CONNECTIVITY", "OK" if ready else "FAILED", bool(ready))
        if status
        else Line("CONNECTIVITY", UNKNOWN),
        Line(
            "DNS",
            join(format_address(server.ip) for server in resolvers.dns_servers) if resolvers else UNKNOWN,
        ),
        Line("NTP", join(clocks.ntp_servers) if clocks else UNKNOWN),
        Line(
            "TIME",
            "synchronized" if synced and synced.synced else "not synchronized",
            bool(synced and synced.synced),
        ),
    ]
    return [Line(line.label, clean(line.value), line.is_good) for line in lines]


def describe_services(view: NodeView) -> list[Line]:
    """Every service with its state."""
    return [
        Line(clean(name), *_health(service.running, service.healthy, service.unknown))
        for name, service in view.all(kinds.SERVICE).items()
    ]


def format_address(packed: bytes) -> str:
    """An address as people read it; what is none is not known."""
    try:
        return str(ipaddress.ip_address(packed))
    except ValueError:
        return UNKNOWN


def format_prefix(prefix: NetIPPrefix) -> str:
    """An address with its prefix length."""
    return f"{format_address(prefix.ip)}/{prefix.prefix_length}"


def join(values: Iterable[str]) -> str:
    """A list on one line."""
    found: Sequence[str] = list(values)
    return ", ".join(found) or UNKNOWN


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _connected(value: bool) -> str:
    return "connected" if value else "not connected"


def _health(running: bool, healthy: bool, unknown: bool) -> tuple[str, bool | None]:
    if not running:
        return "not running", None if unknown else False
    if unknown:
        return "running", None
    return ("healthy", True) if healthy else ("unhealthy", False)
