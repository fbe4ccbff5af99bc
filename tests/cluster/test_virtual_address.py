"""An address that three control plane nodes share."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually, running_cluster

from talos.etcd.election import LEASE_TTL

API_PORT = 50000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters"), controlplanes=3) as running:
        yield running


def find_owners(cluster: Cluster, virtual: str) -> list[str]:
    """The nodes that have the address."""
    return [
        node
        for node in cluster.addresses
        if any(
            row["ADDRESS"] == f"{virtual}/32"
            for row in cluster.rows("-e", node, "-n", node, "get", "addresses")
        )
    ]


def find_one_owner(cluster: Cluster, virtual: str, *, other_than: str = "") -> str:
    owners = find_owners(cluster, virtual)
    assert len(owners) == 1, owners
    assert owners[0] != other_than
    return owners[0]


def check_reachable(virtual: str) -> None:
    with socket.socket() as client:
        client.settimeout(1)
        assert client.connect_ex((virtual, API_PORT)) == 0, f"{virtual} is not reached"


def test_one_node_has_the_address_and_another_one_when_that_loses_its_link(
    cluster: Cluster, tmp_path: Path
) -> None:
    network = ip_network(f"{cluster.addresses[0]}/24", strict=False)
    virtual = str(network.network_address + 100)
    assert ip_address(virtual) in network
    document = tmp_path / "vip.yaml"
    document.write_text(f"apiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: {virtual}\nlink: eth0\n")
    for node in cluster.addresses:
        cluster.talosctl("-e", node, "-n", node, "patch", "machineconfig", "--patch", f"@{document}")
    owner = eventually("one node has it", lambda: find_one_owner(cluster, virtual))
    # From this machine, which has learned by ARP where the address is.
    eventually("the owner answers", lambda: check_reachable(virtual))
    remove = "apiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: " + virtual + "\n$patch: delete\n"
    document.write_text(remove)
    cluster.talosctl("-e", owner, "-n", owner, "patch", "machineconfig", "--patch", f"@{document}")
    eventually("another node has it", lambda: find_one_owner(cluster, virtual, other_than=owner), seconds=30)
    eventually("the new owner answers", lambda: check_reachable(virtual), seconds=5)


def test_a_node_that_shuts_down_hands_the_address_over_at_once(cluster: Cluster, tmp_path: Path) -> None:
    virtual = str(ip_network(f"{cluster.addresses[0]}/24", strict=False).network_address + 101)
    document = tmp_path / "vip.yaml"
    document.write_text(f"apiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: {virtual}\nlink: eth0\n")
    for node in cluster.addresses:
        cluster.talosctl("-e", node, "-n", node, "patch", "machineconfig", "--patch", f"@{document}")
    owner = eventually("one node has it", lambda: find_one_owner(cluster, virtual))
    eventually("the owner answers", lambda: check_reachable(virtual))
    cluster.talosctl("-e", owner, "-n", owner, "shutdown", "--wait=false")
    began, outage = time.monotonic(), 0.0
    # Until another node answers for a while: the owner does so, too, in the first moments.
    answered = began
    while time.monotonic() < began + 2 * LEASE_TTL:
        with suppress(AssertionError):
            check_reachable(virtual)
            outage = max(outage, time.monotonic() - answered)
            answered = time.monotonic()
    assert time.monotonic() - answered < LEASE_TTL, "nobody answers any more"
    assert outage < LEASE_TTL, f"nobody answered for {outage:.1f} s: the lease had to end"
