"""A node at rest: networkd does nothing while nothing changes, whatever its config wants."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.processor import processor_seconds

# Both routes can't be in the kernel: they have one destination and one metric. With the metric of
# the first the second would replace it, and be replaced, as fast as netlink allows.
BRIDGE = """
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: []
stp: {enabled: true}
addresses: [{address: 10.99.0.1/24}]
routes:
- {destination: 10.98.0.0/16, gateway: 10.99.0.253}
- {destination: 10.98.0.0/16, gateway: 10.99.0.254}
"""
NO_BRIDGE = """
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
$patch: delete
"""
WINDOW = 4.0
"""Seconds over which a daemon is watched."""
SHARE = 0.05
"""Of a processor, at most; the loop that this is about takes a fifth and more."""


def patch(cluster: Cluster, folder: Path, text: str) -> None:
    file = folder / "patch.yaml"
    file.write_text(text, encoding="utf-8")
    cluster.talosctl("patch", "mc", "--mode", "no-reboot", "--patch", f"@{file}")


def routes(cluster: Cluster) -> dict[str, str]:
    """Versions of the routes over the bridge, by id."""
    return {row["ID"]: row["VERSION"] for row in cluster.rows("get", "routes") if "10.98.0.0" in row["ID"]}


@pytest.fixture
def bridge(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    patch(cluster, tmp_path, BRIDGE)
    yield
    patch(cluster, tmp_path, NO_BRIDGE)

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
