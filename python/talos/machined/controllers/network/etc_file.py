"""EtcFileSpec: the content of /etc/hostname, /etc/hosts and /etc/resolv.conf; the resolvers of pods."""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.config.active import read_config
from talos.config.effective import network as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

MODE = 0o644
RUNNING = "running"
"""The status of a resolver that serves."""

type Address = IPv4Address | IPv6Address


class NetworkEtcFileController(Reconciler):
    """HostnameStatus, ResolverStatus, NodeAddress, StaticHost and the host's resolver → EtcFileSpec.

    ``write_pod_resolvers`` writes the file that pods get as their resolv.conf.
    """

    name = "network.EtcFileController"
    inputs = (
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.RESOLVER_STATUS),
        Input(*ids.NODE_ADDRESS_DEFAULT),
        Input(*ids.HOST_DNS_CONFIG),
        Input(*ids.MACHINE_CONFIG),
        Input(kinds.STATIC_HOST),
        Input(kinds.DNS_RESOLVE_CACHE),
    )
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    def __init__(self, write_pod_resolvers: Callable[[str], None]) -> None:
        self._write_pod_resolvers = write_pod_resolvers
        self._pods = ""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what is known so far."""
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        address = await runtime.get_or_none(*ids.NODE_ADDRESS_DEFAULT)
        domain = ""
        if hostname is not None:
            spec = hostname.spec
            domain = spec.domainname
            await _write(runtime, "hostname", f"{spec.hostname}\n")
            first = address.spec.addresses[0].ip if address and address.spec.addresses else b""
            entries = {
                resource.id: [ip_address(item.ip) for item in resource.spec.addresses]
                for resource in await runtime.list(kinds.STATIC_HOST)
            }
            await _write(runtime, "hosts", make_hosts(spec.hostname, domain, first, entries))
        await self._write_resolvers(runtime, domain)

    async def _write_resolvers(self, runtime: ControllerRuntime, domain: str) -> None:
        resolvers = await runtime.get_or_none(*ids.RESOLVER_STATUS)
        if resolvers is None:
            return
        domains: Sequence[str] = resolvers.spec.search_domains
        config = await read_config(runtime)
        if not domains and domain and (config is None or effective.has_default_search_domain(config)):
            domains = [domain]
        serving = {
            resource.id
            for resource in await runtime.list(kinds.DNS_RESOLVE_CACHE)
            if resource.spec.status == RUNNING
        }
        servers = [ip_address(server.ip) for server in resolvers.spec.dns_servers]
        pods = servers
        wanted = await runtime.get_or_none(*ids.HOST_DNS_CONFIG)
        if wanted is not None and wanted.spec.enabled:
            listening = [
                item for item in wanted.spec.listen_addresses if make_listener_id(item.ip) in serving
            ]
            loopback = [ip_address(item.ip) for item in listening if ip_address(item.ip).is_loopback]
            forwarded = (wanted.spec.service_host_dns_address.ip, wanted.spec.service_host_dns_address_v6.ip)
            for_pods = [item for item in forwarded if item and make_listener_id(item) in serving]
            # Until the resolver serves, names are resolved without it.
            servers = loopback or servers
            pods = [ip_address(item) for item in for_pods] or pods
        await _write(runtime, "resolv.conf", make_resolv_conf(servers, domains))
        text = make_resolv_conf(pods, domains)
        if text != self._pods:
            self._write_pod_resolvers(text)
            self._pods = text


async def _write(runtime: ControllerRuntime, name: str, text: str) -> None:
    await runtime.put(kinds.ETC_FILE_SPEC, name, EtcFileSpecSpec(contents=text.encode(), mode=MODE))


def make_listener_id(address: bytes) -> str:
    """The id of the status of a resolver on an address, of its UDP half."""
    ip = ip_address(address)
    return f"udp-{ip}:53" if ip.version == 4 else f"udp-[{ip}]:53"


def make_hosts(hostname: str, domain: str, address: bytes, entries: Mapping[str, Sequence[Address]]) -> str:
    """/etc/hosts: the machine's names resolve to an address that other machines reach.

    ``entries`` are the addresses of further names.
    """
    names = f"{hostname}.{domain} {hostname}" if domain else hostname
    own = f"{ip_address(address)} {names}\n" if address else ""
    further: dict[Address, list[str]] = {}
    for name, addresses in entries.items():
        for item in addresses:
            further.setdefault(item, []).append(name)
    return (
        f"127.0.0.1 localhost\n{own}::1 localhost ip6-localhost ip6-loopback\n"
        "ff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
    ) + "".join(f"{item} {' '.join(named)}\n" for item, named in further.items())


def make_resolv_conf(servers: Sequence[Address], domains: Sequence[str]) -> str:
    """/etc/resolv.conf; the C library reads no more than three servers."""
    lines = [f"nameserver {server}\n" for server in servers[:3]]
    if domains:
        lines.append(f"search {' '.join(domains)}\n")
    return "".join(lines)
