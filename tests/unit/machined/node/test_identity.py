"""Small parts: identity, platform, parameters, files in /etc, console, the last resort."""

import json
from pathlib import Path

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.machined.boot.failure import reboot_after_failure
from talos.machined.boot.filesystems import check_hardening
from talos.machined.controllers.network.etc_file import make_hosts, make_resolv_conf
from talos.machined.logs.console import CONTROLLERS, format_for_console, make_sink
from talos.machined.logs.store import LogStore
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.identity import load_identity
from talos.machined.platform.network import parse_network
from talos.machined.platform.platform import detect_platform
from talos.system import kernel
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.mounts import MountPoint
from talos.testing.files import MemoryFiles
from talos.testing.mounts import MemoryMounts

NETWORK = """
hostname: node-1
links:
- {name: eth0, mtu: 1400, addresses: [10.5.0.2/24, 'fd00::2/64'], gateway: 10.5.0.1}
resolvers: [10.5.0.1]
timeServers: [time.example.org]
"""


def test_identity_is_kept(tmp_path: Path) -> None:
    first, second = load_identity(tmp_path), load_identity(tmp_path)
    assert first == second
    assert len(bytes.fromhex(first.machine_id)) == 16
    assert (tmp_path / "node-identity.yaml").stat().st_mode & 0o777 == 0o600


def test_container_platform(tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_text("talos.platform=container talos.hostname=other\n")
    (tmp_path / "config.yaml").write_text("version: v1alpha1\n")
    (tmp_path / "network.yaml").write_text(NETWORK)
    platform = detect_platform(KernelFiles(), tmp_path)
    assert (platform.name, platform.mode) == ("container", "container")
    assert platform.load_config() == b"version: v1alpha1\n"
    platform.forget_config()
    assert platform.load_config() == b""
    platform.forget_config()
    network = platform.load_network()
    assert network.hostnames[0].hostname == "node-1"
    assert network.links[0].mtu == 1400
    assert [address.address.prefix_length for address in network.addresses] == [24, 64]
    assert [address.family for address in network.addresses] == [enums.FAMILY_INET4, enums.FAMILY_INET6]
    assert network.routes[0].gateway.ip == bytes([10, 5, 0, 1])
    assert network.time_servers[0].ntp_servers == ["time.example.org"]


def test_metal_platform() -> None:
    files = MemoryFiles({"/proc/cmdline": "talos.platform=metal talos.hostname=box panic=10\n"})
    platform = detect_platform(files)
    assert (platform.name, platform.mode, platform.load_config()) == ("metal", "metal", b"")
    assert platform.arguments.first("panic") == "10"
    assert platform.load_network().hostnames[0].hostname == "box"


@pytest.mark.parametrize("text", ["links: [{addresses: [x]}]", "links: [{name: a, addresses: [x]}]", "- a"])
def test_bad_network_is_told(text: str) -> None:
    with pytest.raises(UserError, match=r"network\.yaml"):
        parse_network(text, "")


def test_etc_files_are_bound_once(tmp_path: Path) -> None:
    mounts = MemoryMounts()
    files = EtcFiles(mounts, tmp_path / "generated", Path("/etc"))
    files.write("hostname", "a-long-name\n")
    files.write("hostname", "b\n")
    assert (tmp_path / "generated/hostname").read_text() == "b\n"
    assert [(mount.target, mount.options) for mount in mounts.list()] == [("/etc/hostname", ("bind", "ro"))]


def test_hosts_and_resolv_conf() -> None:
    hosts = make_hosts("node", "example.org", bytes([10, 0, 0, 1]))
    assert "10.0.0.1 node.example.org node\n" in hosts
    assert hosts.startswith("127.0.0.1 localhost\n")
    servers = [bytes([10, 0, 0, n]) for n in range(5)]
    assert make_resolv_conf(servers, ["a", "b"]).splitlines() == [
        "nameserver 10.0.0.0",
        "nameserver 10.0.0.1",
        "nameserver 10.0.0.2",
        "search a b",
    ]


def test_console() -> None:
    logs, shown = LogStore(), list[str]()
    write = make_sink(logs, CONTROLLERS, shown.append)
    write(json.dumps({"time": "T", "level": "info", "msg": "hello", "id": 1}, separators=(",", ":")))
    write(json.dumps({"time": "T", "level": "debug", "msg": "quiet"}, separators=(",", ":")))
    assert shown == ["T hello id=1"]
    assert logs.ids() == [CONTROLLERS]
    line = json.dumps({"time": "T", "level": "error", "msg": "m", "error": "E", "traceback": "trace"})
    assert format_for_console(line) == "T m error=E \ntrace"


def test_the_last_resort_reboots() -> None:
    pressed, slept = list[int](), list[float]()
    reboot_after_failure("test: on purpose", press=pressed.append, sleep=slept.append)
    assert pressed == [kernel.RB_AUTOBOOT]
    assert slept == [10.0]


def test_the_last_resort_survives_a_refusal() -> None:
    def refuse(_command: int) -> None:
        raise PermissionError

    reboot_after_failure("test: on purpose", press=refuse, sleep=lambda _: None)


def test_hardening_is_checked() -> None:
    mounts = MemoryMounts()
    mounts.mount(MountPoint(source="tmpfs", target="/run", type="tmpfs", options=("rw", "nosuid")))
    mounts.mount(MountPoint(source="x", target="/", type="squashfs", options=("ro",)))
    mounts.mount(MountPoint(source="/dev/sda6", target="/var", type="xfs", options=("rw", "nosuid", "nodev")))
    assert check_hardening(mounts) == ["/run lacks nodev, noexec"]
