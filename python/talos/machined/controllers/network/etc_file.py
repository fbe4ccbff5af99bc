"""What /etc/hosts and /etc/resolv.conf shall say."""

from collections.abc import Sequence
from ipaddress import ip_address

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec, ResolverStatusSpec
from talos.resource import kinds
from talos.resource.controller import ControllerRuntime, Input, Output, Reconciler

HOSTNAME_ID = "hostname"
RESOLVERS_ID = "resolvers"
DEFAULT_ADDRESS_ID = "default"
# glibc reads no more than this many name servers (MAXNS).
MAX_NAME_SERVERS = 3


class NetworkEtcFileController(Reconciler):
    """Writes the EtcFileSpecs ``hosts`` and ``resolv.conf``."""

    name = "network.EtcFileController"
    inputs = (
        Input(kinds.HOSTNAME_STATUS, id=HOSTNAME_ID),
        Input(kinds.RESOLVER_STATUS, id=RESOLVERS_ID),
        Input(kinds.NODE_ADDRESS, id=DEFAULT_ADDRESS_ID),
        Input(kinds.STATIC_HOST),
    )
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Each file as soon as what it is made from is known."""
        resolvers = await runtime.get_or_none(kinds.RESOLVER_STATUS, RESOLVERS_ID)
        if resolvers is not None:
            await self._write(runtime, "resolv.conf", make_resolv_conf(resolvers.spec))
        hostname = await runtime.get_or_none(kinds.HOSTNAME_STATUS, HOSTNAME_ID)
        address = await runtime.get_or_none(kinds.NODE_ADDRESS, DEFAULT_ADDRESS_ID)
        if hostname is not None and address is not None and address.spec.addresses:
            own = str(ip_address(address.spec.addresses[0].ip))
            extra = [
                (str(ip_address(item.ip)), host.id)
                for host in await runtime.list(kinds.STATIC_HOST)
                for item in host.spec.addresses
            ]
            await self._write(runtime, "hosts", make_hosts(hostname.spec, own, extra))

    @staticmethod
    async def _write(runtime: ControllerRuntime, name: str, text: str) -> None:
        def change(spec: EtcFileSpecSpec) -> None:
            spec.contents, spec.mode = text.encode(), 0o644

        await runtime.modify(kinds.ETC_FILE_SPEC, name, change)


def make_resolv_conf(status: ResolverStatusSpec) -> str:
    """The text of resolv.conf."""
    servers = [ip_address(server.ip) for server in status.dns_servers][:MAX_NAME_SERVERS]
    lines = [f"nameserver {server}" for server in servers]
    if status.search_domains:
        lines.append(f"search {' '.join(status.search_domains)}")
    return "\n".join([*lines, ""])


def make_hosts(hostname: HostnameStatusSpec, address: str, extra: Sequence[tuple[str, str]]) -> str:
    """The text of hosts: loopback, the node itself, then the configured ones."""
    names = hostname.hostname
    if hostname.domainname:
        names = f"{hostname.hostname}.{hostname.domainname} {hostname.hostname}"
    rows = [
        ("127.0.0.1", "localhost"),
        (address, names),
        ("::1", "localhost ip6-localhost ip6-loopback"),
        ("ff02::1", "ip6-allnodes"),
        ("ff02::2", "ip6-allrouters"),
        *extra,
    ]
    return "".join(f"{ip:<15} {name}\n" for ip, name in rows)
