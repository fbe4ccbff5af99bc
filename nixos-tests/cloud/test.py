"""A machine of a cloud has its config, name and network from a metadata server, and keeps them without it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from driver.client import at
from driver.configs import NO_KUBERNETES
from driver.machine import Machine
from driver.node import Node
from driver.saved import restore
from driver.scenarios import DISK, INSTALLED, UPGRADED, fix_kernel, install_new, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": UPGRADED}
NETWORK = "net=168.0.0.0/6"
"""QEMU answers for a server whose address is in the machine's own network."""
SERVER = Path(__file__).with_name("metadata.py")
ROOT, USER_DATA = "hetzner/v1", "userdata"
CARD = "52:54:00:12:00:01"
COPY = "/system/state/platform-network.yaml"
MARK = "from-user-data.example"


def make_metadata(name: str, address: str) -> Mapping[str, str]:
    """What the cloud has of its machine, besides the config."""
    network = f"""\
version: 1
config:
- type: physical
  name: eth0
  mac_address: {CARD}
  subnets:
  - {{type: dhcp, ipv4: true}}
  - {{type: static, address: {address}/64, ipv6: true}}
"""
    return {
        "hostname": name,
        "instance-id": "4711",
        "availability-zone": "fsn1-dc14",
        "public-ipv4": "192.0.2.7",
        "network-config": network,
    }


def publish(folder: Path, parts: Mapping[str, str]) -> None:
    """Have the server answer with these parts."""
    for name, text in parts.items():
        path = folder / ROOT / (name if name == USER_DATA else f"metadata/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_machine(node: Node, folder: Path | None) -> Node:
    """The machine in its cloud, whose server has the files of the folder, if there is one."""
    command = f"cmd:{sys.executable} -I -B {SERVER} {folder}"
    return replace(
        node,
        hands_over_kernel=False,
        without=("talos.platform=metal",),
        arguments=("talos.platform=hcloud",),
        network=(NETWORK, f"guestfwd=tcp:169.254.169.254:80-{command}") if folder else (NETWORK,),
    )


def check(node: Machine, name: str, address: str) -> None:
    """Assert that the machine has what its cloud has of it, and the config of its first boot."""
    addresses = {str(at(found, "metadata.id")) for found in node.get("addresses")}
    assert any(one.endswith(f"/{address}/64") for one in addresses), addresses
    assert any("/168.0.2.15/" in one for one in addresses), addresses
    assert "external/192.0.2.7/32" in addresses, addresses
    (metadata,) = node.get("platformmetadata")
    found = {key: at(metadata, f"spec.{key}") for key in ("platform", "hostname", "region", "providerId")}
    wanted = {"platform": "hcloud", "hostname": name, "region": "fsn1", "providerId": "hcloud://4711"}
    assert found == wanted, metadata
    (status,) = node.get("hostnamestatus")
    assert at(status, "spec.hostname") == name, status
    assert MARK in str(node.get("machineconfig")), "the config is not that of the user data"


def wait_until_kept(node: Machine, name: str) -> None:
    """Wait for the copy for the next boot."""

    def check_copy() -> None:
        text = node.client.run("read", COPY).stdout
        assert name in text, text

    node.wait_until("it is kept", check_copy)


def test(world: World) -> None:
    node, is_restored = world["node"], restore(world, INSTALLED)
    cluster, folder = world.cluster(), world.folder / "metadata"
    if not is_restored:
        install_new(node, cluster, world.releases())
    node.client.talosconfig = cluster.talosconfig
    machine = make_machine(node.node, folder)
    mark = json.dumps({"machine": {"certSANs": [MARK]}})
    config = cluster.config(NO_KUBERNETES, *fix_kernel(node), mark, disk=DISK)

    world.section("the first boot: the config is the instance's user data")
    publish(folder, {USER_DATA: config.read_text(), **make_metadata("first", "fd77::1")})
    wipe = "talos.experimental.wipe=system:STATE,EPHEMERAL"
    node.start(node=replace(machine, arguments=(*machine.arguments, wipe)))
    wait_for_installed(node)
    node.wait_until("name and network of the cloud", lambda: check(node, "first", "fd77::1"))
    wait_until_kept(node, "first")
    node.crash()

    world.section("the config is in STATE, the cloud has another name and another address")
    (folder / ROOT / USER_DATA).unlink()
    publish(folder, make_metadata("second", "fd77::2"))
    node.start(node=machine)
    wait_for_installed(node)
    node.wait_until("what is new", lambda: check(node, "second", "fd77::2"))
    wait_until_kept(node, "second")
    node.crash()

    world.section("the server does not answer")
    node.start(node=make_machine(machine, None))
    wait_for_installed(node)
    node.wait_until("name and network of the boot before", lambda: check(node, "second", "fd77::2"))
