"""Gathers the summary from the State, /proc and the kernel's log."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.api.resource import config_pb2
from talos.machined.node.ports.services import ServiceState, ServiceStatus
from talos.machined.screen.summary import LINES_KEPT, ServiceLine, Summary
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.resource.state import NotFoundError, State
from talos.resource.yaml.enums import format_machine_type, format_stage
from talos.system.files import Files
from talos.system.proc.meminfo import parse_meminfo
from talos.system.version import get_version

WATCHED: tuple[Kind[Message], ...] = (
    kinds.MACHINE_STATUS,
    kinds.MACHINE_TYPE,
    kinds.HOSTNAME_STATUS,
    kinds.NODE_ADDRESS,
    kinds.RESOLVER_STATUS,
    kinds.ROUTE_STATUS,
    kinds.SERVICE,
    kinds.API_CERTIFICATE,
    kinds.SYSTEM_INFORMATION,
    kinds.SECURITY_STATE,
)
"""Kinds whose changes trigger a redraw."""
_QUIET = frozenset({ServiceState.SKIPPED, ServiceState.FINISHED})


@dataclass(kw_only=True)
class Collector:
    """Everything that the screen is made from."""

    state: State
    files: Files
    services: Callable[[], "list[ServiceStatus]"]
    fingerprint_of: Callable[[bytes], str]
    """The fingerprint of the first certificate of a PEM file."""
    log: deque[str] = field(default_factory=lambda: deque[str](maxlen=LINES_KEPT))
    _load: tuple[int, int] = (0, 0)
    """Ticks of all processors at the last measurement: idle, and total."""
    _percent: int = -1
    _pem: bytes = b""
    _print: str = ""

    async def collect(self) -> Summary:
        """Collect the summary."""
        status = await self._get(*ids.MACHINE_STATUS)
        kind = await self._get(*ids.MACHINE_TYPE)
        name = await self._get(*ids.HOSTNAME_STATUS)
        addresses = await self._get(*ids.NODE_ADDRESS_CURRENT)
        resolvers = await self._get(*ids.RESOLVER_STATUS)
        hardware = await self._get(*ids.SYSTEM_INFORMATION)
        security = await self._get(*ids.SECURITY_STATE)
        routes = await self.state.list(kinds.ROUTE_STATUS)
        stage = status.stage if status else enums.MACHINE_STAGE_BOOTING
        memory = parse_meminfo(self.files.read("/proc/meminfo"))
        total, available = memory.get("MemTotal", 0), memory.get("MemAvailable", 0)
        return Summary(
            hostname=name.hostname if name else "",
            version=get_version().tag,
            stage=format_stage(stage),
            ready=bool(status and status.status.ready),
            missing=tuple(f"{unmet.name}: {unmet.reason}" for unmet in status.status.unmet_conditions)
            if status
            else (),
            machine_type=format_machine_type(kind.machine_type)
            if kind and kind.machine_type != config_pb2.UNKNOWN
            else "",
            uuid=hardware.uuid if hardware else "",
            serial=hardware.serial_number if hardware else "",
            addresses=tuple(_addresses(addresses)) if addresses else (),
            secure_boot=bool(security and security.secure_boot),
            signing_key=security.uki_signing_key_fingerprint if security else "",
            gateways=_unique(route.spec.gateway.ip for route in routes if not route.spec.destination.ip),
            resolvers=_unique(server.ip for server in resolvers.dns_servers) if resolvers else (),
            services=tuple(_describe(service) for service in self.services() if service.state not in _QUIET),
            cpu_percent=self._percent,
            memory_used=(total - available) // 1024,
            memory_total=total // 1024,
            maintenance=stage == enums.MACHINE_STAGE_MAINTENANCE,
            fingerprint=await self._fingerprint() if stage == enums.MACHINE_STAGE_MAINTENANCE else "",
            log=tuple(self.log),
        )

    def measure(self) -> None:
        """Note the processors' load since the last call."""
        fields = self.files.read("/proc/stat").partition("\n")[0].split()[1:9]
        ticks = [int(field) for field in fields]
        idle, total = sum(ticks[3:5]), sum(ticks)
        before_idle, before = self._load
        if before and total > before:
            self._percent = 100 - 100 * (idle - before_idle) // (total - before)
        self._load = (idle, total)

    async def _fingerprint(self) -> str:
        certificate = await self._get(*ids.API_CERTIFICATE)
        pem = certificate.server.crt if certificate else b""
        if pem and pem != self._pem:
            self._pem, self._print = pem, self.fingerprint_of(pem)
        return self._print if pem else ""

    async def _get[S: Message](self, kind: Kind[S], id: str) -> S | None:
        try:
            return (await self.state.get(kind, id)).spec
        except NotFoundError:
            return None


def _describe(service: ServiceStatus) -> ServiceLine:
    running = service.state is ServiceState.RUNNING
    if running and (service.health.unknown or service.health.healthy):
        return ServiceLine(id=service.id, state="", is_good=True)
    return ServiceLine(
        id=service.id, state="(unhealthy)" if running else f"({service.state.value.lower()})", is_good=False
    )


def _addresses(spec: NodeAddressSpec) -> Iterator[str]:
    for prefix in spec.addresses:
        yield f"{ip_address(prefix.ip)}/{prefix.prefix_length}"


def _unique(addresses: Iterator[bytes]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(ip_address(address)) for address in addresses if address))
