"""EtcFileSpec: the content of /etc/hostname, /etc/hosts and /etc/resolv.conf."""

import ipaddress
from collections.abc import Sequence

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

MODE = 0o644


class NetworkEtcFileController(Reconciler):
    """HostnameStatus, ResolverStatus and NodeAddress → EtcFileSpec."""

    name = "network.EtcFileController"
    inputs = (
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.RESOLVER_STATUS),
        Input(*ids.NODE_ADDRESS_DEFAULT),
    )
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what is known so far."""
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        address = await runtime.get_or_none(*ids.NODE_ADDRESS_DEFAULT)
        resolvers = await runtime.get_or_none(*ids.RESOLVER_STATUS)
        if hostname is not None:
            spec = hostname.spec
            await _write(runtime, "hostname", f"{spec.hostname}\n")
            first = address.spec.addresses[0].ip if address and address.spec.addresses else b""
            await _write(runtime, "hosts", make_hosts(spec.hostname, spec.domainname, first))
        if resolvers is not None:
            servers = [server.ip for server in resolvers.spec.dns_servers]
            await _write(runtime, "resolv.conf", make_resolv_conf(servers, resolvers.spec.search_domains))


async def _write(runtime: ControllerRuntime, name: str, text: str) -> None:
    await runtime.put(kinds.ETC_FILE_SPEC, name, EtcFileSpecSpec(contents=text.encode(), mode=MODE))


def make_hosts(hostname: str, domain: str, address: bytes) -> str:
    """/etc/hosts: the machine's names resolve to an address that other machines reach."""
    names = f"{hostname}.{domain} {hostname}" if domain else hostname
    own = f"{ipaddress.ip_address(address)} {names}\n" if address else ""
    return (
        f"127.0.0.1 localhost\n{own}::1 localhost ip6-localhost ip6-loopback\n"
        "ff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
    )


def make_resolv_conf(servers: Sequence[bytes], domains: Sequence[str]) -> str:
    """/etc/resolv.conf; the C library reads no more than three servers."""
    lines = [f"nameserver {ipaddress.ip_address(server[:16])}\n" for server in servers[:3]]
    if domains:
        lines.append(f"search {' '.join(domains)}\n")
    return "".join(lines)
