"""A node at rest: networkd does nothing while nothing changes, whatever its config wants."""

import os
import socket
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.processor import processor_seconds

from talos.process.daemons import BY_NAME

# Both routes can't be in the kernel: they have one destination and one metric. With the metric of
# the first the second would replace it, and be replaced, as fast as netlink allows.
LINKS = """
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: []
stp: {enabled: true}
addresses: [{address: 10.99.0.1/24}]
routes:
- {destination: 10.98.0.0/16, gateway: 10.99.0.253}
- {destination: 10.98.0.0/16, gateway: 10.99.0.254}
---
apiVersion: v1alpha1
kind: VethConfig
name: va
mtu: 1400
addresses: [{address: 10.97.0.1/24}]
peer: {name: vb, multicast: false}
---
apiVersion: v1alpha1
kind: EthernetConfig
name: va
features: {tx-checksum-ip-generic: false}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net%d
selector: {match: link.driver == "nothing"}
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: closed
portSelector: {ports: [9], protocol: udp}
ingress: [{subnet: 10.0.0.0/8}]
"""
KINDS = {"br0": "BridgeConfig", "va": "VethConfig", "net%d": "LinkAliasConfig", "closed": "NetworkRuleConfig"}
NO_LINKS = "---".join(
    f"\napiVersion: v1alpha1\nkind: {kind}\nname: {name}\n$patch: delete\n"
    for name, kind in [*KINDS.items(), ("va", "EthernetConfig")]
)
WINDOW = 4.0
"""Seconds over which a daemon is watched."""
SHARE = 0.05
"""Of a processor, at most; the loop that this is about takes a fifth and more."""
QUIET_WINDOW = 10.0
"""Seconds over which the whole node is watched."""
MAX_CPU_SHARE = 0.01
"""Of a processor, each daemon of ours at most: ten times what it takes, for a busy machine."""
RTMGRP = 0x1 | 0x10 | 0x100 | 0x40 | 0x400 | 0x80
"""Links, addresses, routes and rules; neighbours come and go by themselves. <linux/rtnetlink.h>"""


def patch(cluster: Cluster, folder: Path, text: str) -> None:
    file = folder / "patch.yaml"
    file.write_text(text, encoding="utf-8")
    cluster.talosctl("patch", "mc", "--mode", "no-reboot", "--patch", f"@{file}")


def routes(cluster: Cluster) -> dict[str, str]:
    """Versions of the routes over the bridge, by id."""
    return {row["ID"]: row["VERSION"] for row in cluster.rows("get", "routes") if "10.98.0.0" in row["ID"]}


@pytest.fixture
def bridge(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    patch(cluster, tmp_path, LINKS)
    yield
    patch(cluster, tmp_path, NO_LINKS)

    def is_removed() -> None:
        assert "br0" not in {row["ID"] for row in cluster.rows("get", "links")}

    eventually("the bridge is removed", is_removed)


@pytest.mark.usefixtures("bridge")
def test_networkd_rests_with_a_bridge_and_two_routes_of_one_metric(cluster: Cluster) -> None:
    def is_set() -> None:
        assert len(routes(cluster)) == 1, routes(cluster)

    eventually("one of the two routes is set", is_set)
    (pid,) = cluster.processes()["networkd"]

    def is_at_rest() -> None:
        before, began, used = routes(cluster), time.monotonic(), processor_seconds(pid)
        while time.monotonic() - began < WINDOW:
            cluster.talosctl("version", "--short")
        share = (processor_seconds(pid) - used) / (time.monotonic() - began)
        assert share < SHARE, f"networkd takes {share:.0%} of a processor"
        assert routes(cluster) == before, "the route was written again"

    eventually("networkd is at rest", is_at_rest)
    log = cluster.talosctl("logs", "networkd").stdout
    assert log.count("has the same destination and metric") == 1


@contextmanager
def network_changes(pid: int) -> Generator[socket.socket]:
    """A socket that gets every change in the network of a process."""

    def listen() -> socket.socket:
        with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
            os.setns(namespace.fileno(), os.CLONE_NEWNET)
        received = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
        )
        received.bind((0, RTMGRP))
        received.setblocking(False)
        return received

    with ThreadPoolExecutor(1) as thread:
        received = thread.submit(listen).result()
    with received:
        yield received


def drain(received: socket.socket) -> int:
    """The number of changes since the last time."""
    count = 0
    with suppress(BlockingIOError):
        while received.recv(1 << 16):
            count += 1
    return count


@pytest.mark.usefixtures("bridge")
def test_an_idle_node_changes_nothing_and_uses_no_processor(cluster: Cluster) -> None:
    [node] = cluster.nodes
    pids = {name: pid for name, found in cluster.processes(node).items() for pid in found if name in BY_NAME}
    assert {"networkd", "apid", "routerd"} <= set(pids)
    with network_changes(pids["networkd"]) as received:

        def is_quiet() -> None:
            drain(received)
            before, began = {name: processor_seconds(pid) for name, pid in pids.items()}, time.monotonic()
            time.sleep(QUIET_WINDOW)
            seconds = time.monotonic() - began
            shares = {name: (processor_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
            busy = {name: f"{share:.2%}" for name, share in shares.items() if share > MAX_CPU_SHARE}
            assert not busy, f"busy though nothing happens: {busy}"
            assert drain(received) == 0, "the network is changed though nothing happens"

        eventually("the node is at rest", is_quiet)
