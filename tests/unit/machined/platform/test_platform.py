"""What a platform hands over: kernel arguments, config, network."""

from pathlib import Path

from talos.api.definitions import enums_pb2 as enums
from talos.machined.platform.platform import detect_platform
from talos.system.files import KernelFiles
from talos.testing.files import MemoryFiles

NETWORK = """
hostname: node-1
links:
- {name: eth0, mtu: 1400, addresses: [10.5.0.2/24, 'fd00::2/64'], gateway: 10.5.0.1}
resolvers: [10.5.0.1]
timeServers: [time.example.org]
"""


def test_container_platform(tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_text("talos.platform=container talos.hostname=other\n")
    (tmp_path / "config.yaml").write_text("version: v1alpha1\n")
    (tmp_path / "network.yaml").write_text(NETWORK)
    platform = detect_platform(KernelFiles(), tmp_path)
    assert (platform.name, platform.mode) == ("container", "container")
    assert platform.load_config() == b"version: v1alpha1\n"
    platform.remove_config()
    assert platform.load_config() == b""
    platform.remove_config()
    network = platform.load_network()
    assert network.hostnames[0].hostname == "node-1"
    assert network.links[0].mtu == 1400
    assert [address.address.prefix_length for address in network.addresses] == [24, 64]
    assert [address.family for address in network.addresses] == [enums.FAMILY_INET4, enums.FAMILY_INET6]
    assert network.routes[0].gateway.ip == bytes([10, 5, 0, 1])
    assert network.time_servers[0].ntp_servers == ["time.example.org"]
    assert network.metadata.platform == "container"


def test_metal_platform() -> None:
    files = MemoryFiles({"/proc/cmdline": "talos.platform=metal talos.hostname=box panic=10\n"})
    platform = detect_platform(files)
    assert (platform.name, platform.mode, platform.load_config()) == ("metal", "metal", b"")
    assert platform.arguments.first("panic") == "10"
    network = platform.load_network()
    assert (network.hostnames[0].hostname, network.metadata.platform) == ("box", "metal")


def test_an_argument_that_is_no_name_is_none() -> None:
    for name in ("a_/b", "a" * 254):
        files = MemoryFiles({"/proc/cmdline": f"talos.platform=metal talos.hostname={name}\n"})
        assert not detect_platform(files).load_network().hostnames
