"""/etc/hostname, /etc/hosts and /etc/resolv.conf, from what the network's controllers found."""

import ipaddress
from collections.abc import Callable, Sequence

from talos.machined.node.etc_files import EtcFiles
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class EtcFileController(Reconciler):
    """Writes the files, names the machine, and says which file holds which version."""

    name = "files.EtcFileController"
    inputs = (
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.RESOLVER_STATUS),
        Input(*ids.NODE_ADDRESS_DEFAULT),
    )
    outputs = (Output(kinds.ETC_FILE_STATUS, shared=True),)

    def __init__(self, files: EtcFiles, set_hostname: Callable[[str], None]) -> None:
        self._files = files
        self._set_hostname = set_hostname
        self._written: dict[str, str] = {}

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what is known so far."""
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        address = await runtime.get_or_none(*ids.NODE_ADDRESS_DEFAULT)
        resolvers = await runtime.get_or_none(*ids.RESOLVER_STATUS)
        if hostname is not None:
            spec = hostname.spec
            if await self._write(runtime, "hostname", f"{spec.hostname}\n"):
                self._set_hostname(spec.hostname)
            first = address.spec.addresses[0].ip if address and address.spec.addresses else b""
            await self._write(runtime, "hosts", make_hosts(spec.hostname, spec.domainname, first))
        if resolvers is not None:
            servers = [server.ip for server in resolvers.spec.dns_servers]
            text = make_resolv_conf(servers, resolvers.spec.search_domains)
            await self._write(runtime, "resolv.conf", text)

    async def _write(self, runtime: ControllerRuntime, name: str, text: str) -> bool:
        if self._written.get(name) == text:
            return False
        self._files.write(name, text)
        self._written[name] = text

        def change(spec: kinds.files.EtcFileStatusSpec) -> None:
            spec.spec_version = str(int(spec.spec_version or 0) + 1)

        await runtime.modify(kinds.ETC_FILE_STATUS, name, change)
        return True


def make_hosts(hostname: str, domain: str, address: bytes) -> str:
    """/etc/hosts: the machine's names lead to its own address, so that others can be told it."""
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
