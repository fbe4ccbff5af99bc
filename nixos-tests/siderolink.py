"""A machine is given a link to a management service, whose end of it is another link of the same machine.

Its packets are those of WireGuard, and then carried by gRPC.
"""

from typing import Any

from driver.client import Document, at
from driver.machine import Machine
from driver.node import Node
from driver.world import World, free_port

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


def find_link(node: Machine, name: str = "siderolink") -> Document:
    """The link's status."""
    found = node.get("linkstatuses", name)
    assert found, "there is no link"
    return found[0]


def check_status(node: Machine, *, connected: bool, tunnel: bool = False) -> None:
    """Assert that the status is there and shows whether the link is connected."""
    [found] = node.get("siderolinkstatuses") or [{"spec": {}}]
    name = "siderolinktun" if tunnel else "siderolink"
    wanted = {"host": "10.0.2.2", "connected": connected, "linkName": name, "grpcTunnel": tunnel}
    assert found["spec"] == wanted, found


def check_gone(node: Machine) -> None:
    """Assert that nothing of it is left."""
    names = {str(at(link, "metadata.id")) for link in node.get("linkstatuses")}
    assert not names & {"siderolink", "siderolinktun"}, names
    assert not node.get("siderolinkstatuses")
    assert not node.get("siderolinktunnels")


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
    end = END + PEER.replace("KEY", key).replace("ADDRESS", address)
    apply(node, cluster, end + link)
    node.wait_until("it is connected", lambda: check_status(node, connected=True), CONNECT_TIMEOUT)

    world.section("its packets are carried by gRPC")
    port = free_port()
    forward = f"hostfwd_add n0 udp:127.0.0.1:{port}-:51820"
    answer = node.monitor.execute("human-monitor-command", command_line=forward)
    assert not answer, answer
    world.siderolink.stop()
    world.siderolink.start(PUBLIC, f"127.0.0.1:{port}")
    apply(node, cluster, end + LINK.replace("URL", f"{world.siderolink.url}&grpc_tunnel=true"))
    node.wait_until(
        "it is connected", lambda: check_status(node, connected=True, tunnel=True), CONNECT_TIMEOUT
    )
    spec = find_link(node, "siderolinktun")["spec"]
    [peer] = spec["wireguard"]["peers"]
    assert peer["endpoint"].startswith("127.0.0.1:"), peer
    [tunnel] = node.get("siderolinktunnels")
    assert str(at(tunnel, "spec.nodeAddress")).startswith("[fdae:41e4:649b:9304:"), tunnel
    assert "siderolink" not in {str(at(one, "metadata.id")) for one in node.get("linkstatuses")}

    world.section("without the document there is no link")
    apply(node, cluster, END)
    node.wait_until("nothing is left", lambda: check_gone(node))
