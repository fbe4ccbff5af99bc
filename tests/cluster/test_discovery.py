"""Nodes that find each other through the cluster's own discovery server, and what befalls it."""

import base64
import os
import signal
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import grpc
import yaml
from tests.harness.cluster import Cluster, eventually

from talos.api.discovery.cluster_pb2 import Affiliate, ListRequest, ListResponse
from talos.provision.cluster import DISCOVERY_PORT
from talos.provision.host.leftovers import launcher_of
from talos.provision.store import ClusterFolder


def members(cluster: Cluster, address: str) -> dict[str, dict[str, str]]:
    return {row["ID"]: row for row in cluster.rows("-e", address, "-n", address, "get", "members")}


def lists_all(cluster: Cluster, address: str) -> None:
    assert members(cluster, address).keys() == {node.name for node in cluster.nodes}


def spec_of(resource: dict[str, object]) -> dict[str, Any]:
    return cast("dict[str, Any]", resource["spec"])


def read_secret(cluster: Cluster, address: str) -> str:
    (config,) = cluster.resource("-e", address, "-n", address, "machineconfig", "v1alpha1")
    (identity,) = [
        document
        for document in yaml.safe_load_all(cast("str", config["spec"]))
        if document.get("kind") == "DiscoveryIdentityConfig"
    ]
    return identity["clusterSecret"]


def set_secret(cluster: Cluster, address: str, secret: str) -> None:
    patch = f"apiVersion: v1alpha1\nkind: DiscoveryIdentityConfig\nclusterSecret: {secret}\n"
    cluster.talosctl("-e", address, "-n", address, "patch", "machineconfig", "-m", "no-reboot", "-p", patch)


def discovery_pids(cluster: Cluster) -> list[int]:
    """The discovery server's process: a child of the launcher that is no node's PID 1."""
    launcher = launcher_of(ClusterFolder(cluster.info.directory))
    assert launcher is not None
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="ascii").split()
    found: list[int] = []
    for pid in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
            if b"talos.discovery.main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


def test_every_node_sees_every_member(cluster: Cluster) -> None:
    for node in cluster.nodes:
        address = str(node.address)
        eventually(f"{node.name} lists all", lambda address=address: lists_all(cluster, address))
        found = members(cluster, address)
        for other in cluster.nodes:
            row = found[other.name]
            assert row["HOSTNAME"] == other.name
            assert row["MACHINE TYPE"] == other.role.value
            assert row["ADDRESSES"] == f'["{other.address}"]'
            assert row["OS"].startswith("Talos (v")
        affiliates = cluster.resource("-e", address, "-n", address, "affiliates")
        (identity,) = cluster.resource("-e", address, "-n", address, "identities")
        assert len(affiliates) == len(cluster.nodes)
        assert spec_of(identity)["nodeId"] in {spec_of(affiliate)["nodeId"] for affiliate in affiliates}


def test_the_control_plane_s_addresses_are_endpoints(cluster: Cluster) -> None:
    worker = cluster.addresses[2]
    eventually("the worker lists all", lambda: lists_all(cluster, worker))

    def are_endpoints() -> None:
        (endpoint,) = cluster.resource("-e", worker, "-n", worker, "endpoints", "discovered")
        assert spec_of(endpoint)["addresses"] == cluster.addresses[:2]

    eventually("the worker has the endpoints", are_endpoints)


def test_the_server_may_restart_and_no_member_is_forgotten(cluster: Cluster) -> None:
    worker = cluster.addresses[2]
    eventually("the worker lists all", lambda: lists_all(cluster, worker))
    (before,) = discovery_pids(cluster)
    os.kill(before, signal.SIGKILL)

    def is_back() -> None:
        now = discovery_pids(cluster)
        assert now
        assert now != [before]

    eventually("the server is back", is_back)

    def has_connected_again() -> None:
        log = cluster.talosctl("-e", worker, "-n", worker, "logs", "clusterd").stdout
        assert log.count("connected to the discovery service") >= 2
        lists_all(cluster, worker)

    eventually("the worker is connected again", has_connected_again)


def test_what_the_server_holds_is_encrypted(cluster: Cluster) -> None:
    """Who has the cluster's id gets as many affiliates as there are nodes, and nothing to read in them."""
    first = cluster.addresses[0]
    (info,) = cluster.rows("-e", first, "-n", first, "get", "info")
    services = ip_address(int(cluster.info.subnet.broadcast_address) - 1)
    with grpc.insecure_channel(f"{services}:{DISCOVERY_PORT}") as channel:
        call = channel.unary_unary(
            "/sidero.discovery.server.Cluster/List",
            request_serializer=ListRequest.SerializeToString,
            response_deserializer=ListResponse.FromString,
        )

        def read_all() -> list[Affiliate]:
            reply = call(ListRequest(cluster_id=info["CLUSTER ID"]), timeout=10)
            assert len(reply.affiliates) == len(cluster.nodes)
            return [*reply.affiliates]

        affiliates = eventually("every node has published itself", read_all)
    for affiliate in affiliates:
        assert len(affiliate.data) > 100
        for node in cluster.nodes:
            assert node.name.encode() not in affiliate.data
            assert node.address.packed not in affiliate.data


def test_a_node_with_another_secret_is_alone_until_it_has_the_right_one(cluster: Cluster) -> None:
    first, worker = cluster.addresses[0], cluster.addresses[2]
    own = f"members of {worker}"
    secret = read_secret(cluster, worker)
    set_secret(cluster, worker, base64.b64encode(bytes(32)).decode())

    def is_alone() -> None:
        assert members(cluster, worker).keys() == {cluster.nodes[2].name}

    eventually(own, is_alone)

    def is_logged(address: str) -> None:
        log = cluster.talosctl("-e", address, "-n", address, "logs", "clusterd").stdout
        assert log.count("encrypted with another cluster's secret") == 1, log

    # What the worker publishes reaches the others later than it is alone.
    for address in (first, worker):
        eventually(f"{address} names the reason", partial(is_logged, address))
    set_secret(cluster, worker, secret)
    eventually(own, lambda: lists_all(cluster, worker))


def test_a_node_that_is_reset_leaves(cluster: Cluster) -> None:
    """The last test of this module: the cluster is one node smaller afterwards."""
    first, worker = cluster.addresses[0], cluster.addresses[2]
    eventually("the first node lists all", lambda: lists_all(cluster, first))
    cluster.talosctl("-e", worker, "-n", worker, "reset", "--graceful=false", "--wait=false")

    def has_left() -> None:
        assert members(cluster, first).keys() == {node.name for node in cluster.nodes[:2]}

    eventually("the worker is no member any more", has_left)
