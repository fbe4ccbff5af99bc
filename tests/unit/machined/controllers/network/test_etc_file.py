"""/etc/hosts, /etc/resolv.conf and the resolvers of pods."""

from ipaddress import ip_address

import pytest
import trio.testing

from talos.api.common.common_pb2 import NetIP, NetIPPort
from talos.api.definitions.network_pb2 import (
    DNSResolveCacheSpec,
    HostDNSConfigSpec,
    HostnameStatusSpec,
    ResolverStatusSpec,
    StaticHostSpec,
)
from talos.config.read.loader import load
from talos.config.subnet_list import Address
from talos.machined.controllers.network.config import make_host_dns
from talos.machined.controllers.network.etc_file import (
    NetworkEtcFileController,
    make_hosts,
    make_listener_id,
    make_resolv_conf,
)
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState

LOCAL, FOR_PODS = ip_address("127.0.0.53"), ip_address("169.254.116.108")
FOR_PODS_IPV6 = ip_address("fd54:616c:6f73::204f:5320:444e:531")
CONFIG = """\
version: v1alpha1
machine: {{type: worker, features: {{hostDNS: {{enabled: true, forwardKubeDNSToHost: true}}}}}}
cluster: {{network: {{podSubnets: [{pods}]}}}}
"""


def test_hosts_and_resolv_conf() -> None:
    hosts = make_hosts("node", "example.org", bytes([10, 0, 0, 1]), {"a": [ip_address("10.0.0.9")]})
    assert "10.0.0.1 node.example.org node\n" in hosts
    assert hosts.startswith("127.0.0.1 localhost\n")
    assert hosts.endswith("10.0.0.9 a\n")
    servers = [ip_address(f"10.0.0.{n}") for n in range(5)]
    assert make_resolv_conf(servers, ["a", "b"]).splitlines() == [
        "nameserver 10.0.0.0",
        "nameserver 10.0.0.1",
        "nameserver 10.0.0.2",
        "search a b",
    ]


async def test_the_hosts_resolver_is_named_once_it_serves() -> None:
    state, pods = MemoryState(), list[str]()
    await put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="node", domainname="example.org"))
    await put(state, *ids.RESOLVER_STATUS, ResolverStatusSpec(dns_servers=[NetIP(ip=bytes([9, 9, 9, 9]))]))
    await put(state, kinds.STATIC_HOST, "a", StaticHostSpec(addresses=[NetIP(ip=bytes([10, 0, 0, 9]))]))
    host_dns = HostDNSConfigSpec(
        enabled=True,
        listen_addresses=[NetIPPort(ip=address.packed, port=53) for address in (LOCAL, FOR_PODS)],
        service_host_dns_address=NetIP(ip=FOR_PODS.packed),
    )
    await put(state, *ids.HOST_DNS_CONFIG, host_dns)

    async def read() -> str:
        await trio.testing.wait_all_tasks_blocked(0.05)
        return (await state.get(kinds.ETC_FILE_SPEC, "resolv.conf")).spec.contents.decode()

    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [NetworkEtcFileController(pods.append)])
        assert await read() == "nameserver 9.9.9.9\nsearch example.org\n"
        for address in (LOCAL, FOR_PODS):
            await put(
                state, kinds.DNS_RESOLVE_CACHE, f"udp-{address}:53", DNSResolveCacheSpec(status="running")
            )
        assert await read() == "nameserver 127.0.0.53\nsearch example.org\n"
        assert pods[-1] == "nameserver 169.254.116.108\nsearch example.org\n"
        assert b"10.0.0.9 a\n" in (await state.get(kinds.ETC_FILE_SPEC, "hosts")).spec.contents
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("pods", "resolvers"),
    [
        ("10.244.0.0/16", [FOR_PODS]),
        ("10.244.0.0/16, fd00:244::/56", [FOR_PODS, FOR_PODS_IPV6]),
        ("fd00:244::/56", [FOR_PODS_IPV6]),
    ],
)
async def test_pods_are_given_resolvers_of_their_families(pods: str, resolvers: list[Address]) -> None:
    state, written = MemoryState(), list[str]()
    await put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="node"))
    await put(state, *ids.RESOLVER_STATUS, ResolverStatusSpec(dns_servers=[NetIP(ip=bytes([9, 9, 9, 9]))]))
    host_dns = make_host_dns(load(CONFIG.format(pods=pods)))
    assert [ip_address(item.ip) for item in host_dns.listen_addresses] == [LOCAL, *resolvers]
    await put(state, *ids.HOST_DNS_CONFIG, host_dns)
    for item in host_dns.listen_addresses:
        listener = make_listener_id(item.ip)
        await put(state, kinds.DNS_RESOLVE_CACHE, listener, DNSResolveCacheSpec(status="running"))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [NetworkEtcFileController(written.append)])
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    assert written[-1] == "".join(f"nameserver {address}\n" for address in resolvers)
