"""machined's part of the network: the platform's config, the host name, files in /etc."""

from pathlib import Path

import pytest
import trio
import trio.testing

from talos.api.common.common_pb2 import NetIP, NetIPPrefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec, ResolverStatusSpec
from talos.machined.controllers.files.etc_file import EtcFileController
from talos.machined.controllers.network.etc_file import NetworkEtcFileController
from talos.machined.controllers.network.hostname import CmdlineHostnameController, KernelHostnameController
from talos.machined.controllers.network.platform_config import PlatformConfigController, parse_network
from talos.resource import kinds
from talos.resource.changes import modify, wait_for
from talos.resource.memory import MemoryState
from talos.resource.resource import make_resource
from talos.resource.runtime import run_controllers
from talos.system.cmdline import parse_cmdline
from talos.system.errors import UserError
from talos.system.mounts import MemoryMounts

NETWORK = """
hostname: node-1.example.org
links:
- {name: eth0, mtu: 1400, addresses: [10.5.0.2/24], gateway: 10.5.0.1}
resolvers: [10.5.0.1]
timeServers: [time.example.org]
"""


def test_the_platforms_network_config_is_read() -> None:
    config = parse_network(NETWORK)
    assert config.links[0].mtu == 1400
    assert config.addresses[0].address.ip == bytes([10, 5, 0, 2])
    assert (config.routes[0].gateway.ip, config.routes[0].priority) == (bytes([10, 5, 0, 1]), 1024)
    assert (config.hostnames[0].hostname, config.hostnames[0].domainname) == ("node-1", "example.org")
    assert config.resolvers[0].dns_servers[0].ip == bytes([10, 5, 0, 1])
    assert list(config.time_servers[0].ntp_servers) == ["time.example.org"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a mapping is expected"),
        ("hostnames: x", "unknown keys hostnames"),
        ("links: [{name: eth0, addresses: [nonsense]}]", "nonsense"),
        ("links: [{mtu: 5}]", "name"),
    ],
)
def test_a_wrong_network_config_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_network(text)


async def test_host_names_go_into_the_state_and_the_kernel() -> None:
    state, kernel = MemoryState(), ["localhost"]
    controllers = [
        CmdlineHostnameController(parse_cmdline("talos.hostname=from-cmdline.example.org")),
        KernelHostnameController(lambda: kernel[-1], kernel.append),
        PlatformConfigController(lambda: NETWORK),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        with trio.fail_after(5):
            found = await wait_for(
                state, kinds.HOSTNAME_SPEC, "cmdline/hostname", lambda _: True, namespace="network-config"
            )
            assert found.spec.config_layer == enums_pb2.CONFIG_CMDLINE
            await wait_for(state, kinds.PLATFORM_CONFIG, "active", lambda _: True)
        await modify(state, kinds.HOSTNAME_STATUS, "hostname", lambda spec: setattr(spec, "hostname", "n1"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    assert kernel == ["localhost", "n1"]


async def test_etc_files_are_made_and_follow_what_they_are_made_from(tmp_path: Path) -> None:
    state, mounts = MemoryState(), MemoryMounts()
    etc = tmp_path / "etc"
    controllers = [NetworkEtcFileController(), EtcFileController(mounts, tmp_path / "shadow", etc)]
    await state.create(
        make_resource(kinds.HOSTNAME_STATUS, "hostname", HostnameStatusSpec(hostname="n1", domainname="org"))
    )
    address = NetIPPrefix(ip=bytes([10, 5, 0, 2]), prefix_length=24)
    await state.create(make_resource(kinds.NODE_ADDRESS, "default", NodeAddressSpec(addresses=[address])))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        with trio.fail_after(5):
            await wait_for(state, kinds.ETC_FILE_STATUS, "hosts", lambda _: True)
        assert "10.5.0.2        n1.org n1\n" in (tmp_path / "shadow/hosts").read_text()
        resolvers = ResolverStatusSpec(
            dns_servers=[NetIP(ip=bytes([10, 5, 0, number])) for number in range(5)]
        )
        await state.create(make_resource(kinds.RESOLVER_STATUS, "resolvers", resolvers))
        with trio.fail_after(5):
            await wait_for(state, kinds.ETC_FILE_STATUS, "resolv.conf", lambda _: True)
        assert (tmp_path / "shadow/resolv.conf").read_text().count("nameserver") == 3
        nursery.cancel_scope.cancel()
    assert sorted(mount.target for mount in mounts.list()) == [str(etc / "hosts"), str(etc / "resolv.conf")]
