"""A machine is given a link to a management service, whose end of it is another link of the same machine."""

from typing import Any

from driver.client import Document, at
from driver.machine import Machine
from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "siderolink")
UUID = "5b0c7a52-2f6e-4c1d-8a53-9e41d7c26f10"
OWN = Node(memory=1280, uuid=UUID)
NODES = {"node": OWN}
NO_DISK = "sequence install: did not end well .*no disk matches"
PRIVATE, PUBLIC = (
    "YCmmKPQTPPGiTi3w4eTD+cBzPTOTUg3pdO4ERlDgDWs=",
    "vCciBo2XSigSQtRbo66UZkwLO2wnCuifIgw7qmHxyBg=",
)
"""Of the service's end, made for this test."""
SERVICE = "fdae:41e4:649b:9303::1"
ENDPOINT = "10.0.2.15:51820"
"""The machine's own address, as QEMU gives it."""
CONNECT_TIMEOUT = 240
"""Seconds: the next check of the link, a handshake, on a slow machine."""

END = f"""\
apiVersion: v1alpha1
kind: WireguardConfig
name: manager
privateKey: {PRIVATE}
listenPort: 51820
up: true
"""
PEER = """\
peers: [{publicKey: KEY, allowedIPs: [ADDRESS/128]}]
"""
LINK = """\
---
apiVersion: v1alpha1
kind: SideroLinkConfig
apiUrl: URL
"""


def apply(node: Machine, cluster: Any, patch: str) -> None:
    """Give the machine another config, without a reboot."""
    node.talosctl("apply-config", "--mode", "no-reboot", "--file", str(cluster.config(patch)))


def find_link(node: Machine) -> Document:
    """The link's status."""
    found = node.get("linkstatuses", "siderolink")
    assert found, "there is no link"
    return found[0]


def check_status(node: Machine, *, connected: bool) -> None:
    """Assert that the status is there and shows whether the link is connected."""
    [found] = node.get("siderolinkstatuses") or [{"spec": {}}]
    wanted = {"host": "10.0.2.2", "connected": connected, "linkName": "siderolink", "grpcTunnel": False}
    assert found["spec"] == wanted, found


def check_gone(node: Machine) -> None:
    """Assert that nothing of it is left."""
    names = {str(at(link, "metadata.id")) for link in node.get("linkstatuses")}
    assert "siderolink" not in names
    assert not node.get("siderolinkstatuses")


def test(world: World) -> None:
    node = world["node"]
    with node.console.expect(NO_DISK):
        run(world, node)


def run(world: World, node: Machine) -> None:
    cluster = world.cluster()
    node.client.talosconfig = cluster.talosconfig
    url = world.web.serve("/config.yaml", cluster.config(END).read_text())
    node.start(node=Node(memory=1280, uuid=UUID, arguments=(f"talos.config={url}",)))
    node.wait_for_console_text(NO_DISK)
    node.wait_for_api()

    world.section("the service gives the machine its end of the link")
    world.siderolink.start(PUBLIC, ENDPOINT)
    link = LINK.replace("URL", world.siderolink.url)
    apply(node, cluster, END + link)
    node.wait_until("the link is made", lambda: find_link(node))
    check_status(node, connected=False)
    address = world.siderolink.read_addresses()[UUID]
    addresses = {str(at(one, "spec.address")) for one in node.get("addressstatuses")}
    assert f"{address}/64" in addresses, addresses
    spec: Any = find_link(node)["spec"]
    [peer] = spec["wireguard"]["peers"]
    assert (spec["kind"], spec["mtu"]) == ("wireguard", 1280)
    assert (peer["publicKey"], peer["endpoint"]) == (PUBLIC, ENDPOINT)
    assert peer["allowedIPs"] == [f"{SERVICE}/128"], peer

    world.section("it is connected once the service has the machine as a peer")
    key = str(spec["wireguard"]["publicKey"])
    apply(node, cluster, END + PEER.replace("KEY", key).replace("ADDRESS", address) + link)
    node.wait_until("it is connected", lambda: check_status(node, connected=True), CONNECT_TIMEOUT)

    world.section("without the document there is no link")
    apply(node, cluster, END)
    node.wait_until("nothing is left", lambda: check_gone(node))
