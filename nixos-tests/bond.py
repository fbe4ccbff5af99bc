"""A bond goes through all modes, changed in place: its settings, its port, its address and its index."""

from collections.abc import Callable
from typing import Any

from driver.client import at
from driver.machine import Machine
from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node(lan=True, memory=1280)}
LAN = "enp0s4"
"""The card on the network that machines share."""
NO_DISK = "sequence install: did not end well .*no disk matches"
ADDRESS = "bond0/10.20.0.1/24"

BOND = """\
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan
selector: {match: 'glob("52:54:00:12:01:*", mac(link.permanent_addr))'}
---
apiVersion: v1alpha1
kind: BondConfig
name: bond0
links: [lan]
addresses: [{address: 10.20.0.1/24}]
"""
FIRST = "bondMode: active-backup\nmiimon: 100\n"
BONDS: dict[str, dict[str, Any]] = {
    "bondMode: active-backup\narpInterval: 200\narpIpTargets: [10.20.0.1, 10.20.0.2]\narpValidate: all\n"
    "arpAllTargets: all\nmissedMax: 3\nprimaryReselect: failure\nfailOverMac: active\n": {
        "mode": "active-backup",
        "arpInterval": 200,
        "arpValidate": "all",
        "arpAllTargets": "all",
        "missedMax": 3,
        "primaryReselect": "failure",
        "failOverMac": "active",
    },
    "bondMode: balance-xor\nmiimon: 100\nxmitHashPolicy: encap3+4\nupdelay: 200\ndowndelay: 300\n": {
        "mode": "balance-xor",
        "xmitHashPolicy": "encap3+4",
        "updelay": 200,
        "downdelay": 300,
    },
    "bondMode: broadcast\nmiimon: 100\n": {"mode": "broadcast"},
    "bondMode: balance-tlb\nmiimon: 100\ntlbLogicalLb: 0\nprimary: lan\nlpInterval: 2\n": {
        "mode": "balance-tlb",
        "tlbLogicalLb": None,
        "lpInterval": 2,
    },
    "bondMode: balance-alb\nmiimon: 100\nresendIGMP: 3\nnumPeerNotif: 4\npeerNotifDelay: 500\n": {
        "mode": "balance-alb",
        "resendIgmp": 3,
        "numPeerNotif": 4,
        "peerNotifyDelay": 500,
    },
    "bondMode: 802.3ad\nmiimon: 100\nlacpRate: fast\nadSelect: count\nadActorSysPrio: 7\nadUserPortKey: 9\n"
    "adLACPActive: off\nminLinks: 1\nallSlavesActive: 1\n": {
        "mode": "802.3ad",
        "lacpRate": "fast",
        "adSelect": "count",
        "adActorSysPrio": 7,
        "adUserPortKey": 9,
        "adLacpActive": None,
        "minLinks": 1,
        "allSlavesActive": 1,
    },
    "bondMode: balance-rr\nmiimon: 100\npacketsPerSlave: 5\nuseCarrier: true\n": {
        "mode": "balance-rr",
        "packetsPerSlave": 5,
    },
}
"""Settings of a bond, and its status; 0 is not shown. All modes, and each option in one that has it."""


def has(machine: Machine, name: str, **expected: Any) -> Callable[[], None]:
    """A check that a link's status has these values, by their paths with ``__`` for a dot."""

    def check() -> None:
        [found] = machine.get("linkstatuses", name)
        for path, value in expected.items():
            value_found = at(found, ".".join(("spec", *path.split("__"))))
            assert value_found == value, f"{name}: {path} is {value_found!r} instead of {value!r}: {found}"

    return check


def check_address(machine: Machine) -> None:
    ids = {str(at(found, "metadata.id")) for found in machine.get("addressstatuses")}
    assert ADDRESS in ids, ids


def read_index(machine: Machine) -> object:
    [found] = machine.get("linkstatuses", "bond0")
    return at(found, "spec.index")


def test(world: World) -> None:
    node = world["node"]
    with node.console.expect(NO_DISK):
        run(world, node)


def run(world: World, node: Machine) -> None:
    cluster = world.cluster()
    node.client.talosconfig = cluster.talosconfig
    url = world.web.serve("/config.yaml", cluster.config(BOND + FIRST).read_text())
    node.start(node=Node(lan=True, memory=1280, arguments=(f"talos.config={url}",)))
    node.wait_for_console_text(NO_DISK)
    node.wait_for_api()
    node.wait_until("the bond", has(node, "bond0", kind="bond", bondMaster__mode="active-backup"))
    node.wait_until("its address", lambda: check_address(node))
    index = read_index(node)
    for settings, expected in BONDS.items():
        path = cluster.config(BOND + settings)
        node.talosctl("apply-config", "--mode", "no-reboot", "--file", str(path))
        values = {f"bondMaster__{key}": value for key, value in expected.items()}
        node.wait_until(f"a bond with {settings!r}", has(node, "bond0", **values))
        node.wait_until("its port is back", has(node, LAN, slaveKind="bond"))
    assert read_index(node) == index
    check_address(node)
