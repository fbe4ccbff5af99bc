"""A cloud's metadata server with the parts of one machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.boot.cloud_network import make_source
from talos.machined.platform.builder import Cards, NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Source
from talos.machined.platform.clouds.server import MetadataServer
from talos.process.fetch import FetchError, NotThereError, Request
from talos.resource import ids
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.files import KernelFiles
from talos.system.proc.cmdline import parse_cmdline
from talos.testing.mounts import MemoryMounts

CARDS = {"02:00:00:00:00:01": "eth0", "02:00:00:00:00:02": "eth1"}


@dataclass
class FakeServer:
    """Answers requests for its URLs, if they have the headers that it demands."""

    parts: Mapping[str, str]
    tokens: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of PUT, by URL."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Without them a GET is refused."""
    silent: str = ""
    """The beginning of URLs at which there is no answer."""
    requests: list[Request] = field(default_factory=list[Request])

    async def send(self, request: Request) -> bytes:
        """Answer a request. FetchError, NotThereError."""
        self.requests.append(request)
        if self.silent and request.url.startswith(self.silent):
            raise FetchError("no route to host")
        if request.method == "GET" and not self.headers.items() <= request.headers.items():
            raise FetchError("the server replied 401")
        found = (self.tokens if request.method == "PUT" else self.parts).get(request.url)
        if found is None:
            raise NotThereError("the server replied 404")
        return found.encode()


async def make_cloud_source(server: FakeServer) -> Source:
    """Where a cloud's machine looks: this server, and no volume."""
    state = MemoryState()
    await modify(state, *ids.NETWORK_STATUS, lambda spec: setattr(spec, "address_ready", True))
    source = make_source(
        state=state, files=KernelFiles(), mounts=MemoryMounts(), arguments=parse_cmdline(""), report=print
    )
    metadata = MetadataServer(state=state, report=print, send=server.send)
    return Source(
        server=metadata,
        volume=source.volume,
        files=source.files,
        arguments=source.arguments,
        environment=source.environment,
    )


async def describe_by(cloud: Cloud, source: Source, cards: Cards = CARDS) -> PlatformConfigSpec:
    """What a machine learns from where it looks."""
    builder = NetworkBuilder(cards)
    cloud.describe(await cloud.load_documents(source), builder)
    return builder.spec


async def describe(cloud: Cloud, server: FakeServer, cards: Cards = CARDS) -> PlatformConfigSpec:
    """What a machine learns from the server."""
    return await describe_by(cloud, await make_cloud_source(server), cards)


async def load_user_data(cloud: Cloud, server: FakeServer) -> bytes:
    """The machine config that the server has."""
    return await cloud.load_config(await make_cloud_source(server))


def show(spec: PlatformConfigSpec) -> list[str]:
    """Links, addresses, routes, DHCP clients and others, a line each."""
    lines = [f"link {link.name}" + (f" mtu {link.mtu}" if link.mtu else "") for link in spec.links]
    lines += [
        f"address {one.link_name} {ip_interface((one.address.ip, one.address.prefix_length))}"
        for one in spec.addresses
    ]
    for route in spec.routes:
        destination = (
            ip_interface((route.destination.ip, route.destination.prefix_length)).network
            if (route.destination.ip)
            else "default"
        )
        via = f" via {ip_address(route.gateway.ip)}" if route.gateway.ip else ""
        lines.append(f"route {route.out_link_name} {destination}{via} metric {route.priority}")
    names = {enums.OPERATOR_DHCP4: "dhcp4", enums.OPERATOR_DHCP6: "dhcp6"}
    lines += [f"{names[one.operator]} {one.link_name}" for one in spec.operators]
    lines += [f"resolver {ip_address(one.ip)}" for item in spec.resolvers for one in item.dns_servers]
    lines += [f"time {name}" for item in spec.time_servers for name in item.ntp_servers]
    lines += [f"external {ip_address(one.ip)}" for one in spec.external_ips]
    return lines
