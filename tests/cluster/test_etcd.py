"""etcd on three control plane nodes: it forms, loses and replaces members; a snapshot brings it back."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.harness.cluster import Cluster, check_services, eventually, running_cluster
from tests.harness.etcd import (
    check_upgrade,
    end_earlier_upgrades,
    end_upgrade,
    find_etcd,
    open_keys,
    take_upgrade_lock,
)

from talos.provision.cluster import NodeInfo
from talos.system.process import run_command
from talos.talosctl.cli.exit import Exit
from talos.upgrade.release.signature import format_public

WRITES_AGAIN = 20.0
"""Seconds until a cluster whose leader was killed takes writes; an election takes one or two."""
AGE: Any = importlib.import_module("pyrage")
JOINS = 90.0
"""Seconds for a node to pull the image, join and be promoted."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters"), controlplanes=3, workers=1) as running:
        yield running


def call_node(cluster: Cluster, node: NodeInfo, *argv: str) -> list[dict[str, str]]:
    return cluster.rows("-e", str(node.address), "-n", str(node.address), *argv)


def refused(cluster: Cluster, node: NodeInfo, *argv: str, code: Exit = Exit.REFUSED) -> str:
    result = cluster.talosctl("-e", str(node.address), "-n", str(node.address), *argv, check=False)
    assert result.returncode == code, f"{result.returncode}: {result.stdout}{result.stderr}"
    return result.stderr


def members(cluster: Cluster, node: NodeInfo) -> dict[str, str]:
    """Ids by host name; AssertionError while one is a learner."""
    rows = call_node(cluster, node, "etcd", "members")
    assert all(row["LEARNER"] == "false" for row in rows), rows
    return {row["HOSTNAME"]: row["ID"] for row in rows}


def leader(cluster: Cluster, node: NodeInfo) -> NodeInfo:
    """The node whose member leads."""
    (status,) = call_node(cluster, node, "etcd", "status")
    names = {member: name for name, member in members(cluster, node).items()}
    assert status["LEADER"] in names, status
    return next(one for one in cluster.nodes if one.name == names[status["LEADER"]])


def wait_until_well(cluster: Cluster) -> None:
    for address in cluster.addresses:
        eventually(f"{address} is well", lambda node=address: check_services(cluster, node), seconds=JOINS)


def test_three_nodes_form_one_cluster(cluster: Cluster) -> None:
    first, *_ = control_plane = cluster.nodes[:3]
    found = members(cluster, first)
    assert found.keys() == {node.name for node in control_plane}
    for node in control_plane:
        assert members(cluster, node) == found
        (member,) = call_node(cluster, node, "get", "etcdmembers")
        assert member["MEMBER ID"] == found[node.name]
    with open_keys(cluster, first) as keys, open_keys(cluster, control_plane[2]) as others:
        keys.put("greeting", "hello")
        assert others.get("greeting") == "hello"


def test_the_leader_hands_over(cluster: Cluster) -> None:
    before = leader(cluster, cluster.nodes[0])
    cluster.talosctl("-n", str(before.address), "etcd", "forfeit-leadership")

    def is_another() -> None:
        assert leader(cluster, cluster.nodes[0]).name != before.name

    # The other members learn from the new leader that there is one.
    eventually("another member leads", is_another)


def test_writes_go_on_after_the_leader_was_killed(cluster: Cluster) -> None:
    before = leader(cluster, cluster.nodes[0])
    pid = find_etcd(before)
    other = next(node for node in cluster.nodes[:3] if node.name != before.name)
    os.kill(pid, signal.SIGKILL)
    with open_keys(cluster, other) as keys:
        eventually("a key is written", lambda: keys.put("after", "kill"), seconds=WRITES_AGAIN)
        assert keys.get("after") == "kill"
    wait_until_well(cluster)


def test_a_node_that_reboots_is_the_same_member(cluster: Cluster) -> None:
    node, other = cluster.nodes[1], cluster.nodes[0]
    before = members(cluster, other)
    cluster.talosctl("-n", str(node.address), "reboot", seconds=JOINS)
    wait_until_well(cluster)
    assert members(cluster, node) == before


def test_a_node_leaves_and_joins_anew(cluster: Cluster) -> None:
    node, other = cluster.nodes[2], cluster.nodes[0]
    before = members(cluster, other)
    cluster.talosctl("-n", str(node.address), "etcd", "leave")
    assert node.name not in members(cluster, other)
    assert cluster.services(str(node.address))["etcd"]["STATE"] == "Finished"
    assert "runs on" in refused(cluster, node, "bootstrap")
    for one in cluster.nodes[:2]:
        os.kill(find_etcd(one), signal.SIGKILL)
    # Those that are down for the moment are in the way of another cluster, too.
    assert "bootstrap only one node" in refused(cluster, node, "bootstrap")
    cluster.talosctl("-n", str(node.address), "reboot", seconds=JOINS)

    def is_back() -> None:
        after = members(cluster, other)
        assert after.keys() == before.keys()
        assert after[node.name] != before[node.name]

    eventually("the node is a member again", is_back, seconds=JOINS, pause=1)
    wait_until_well(cluster)


def test_a_node_without_its_data_replaces_its_former_member(cluster: Cluster) -> None:
    node, other = cluster.nodes[1], cluster.nodes[0]
    before = members(cluster, other)
    with open_keys(cluster, other) as keys:
        keys.put("kept", "by the others")
    pid = find_etcd(node)
    os.kill(pid, signal.SIGSTOP)  # else it makes new files meanwhile
    shutil.rmtree(cluster.root(node) / "var/lib/etcd/member")
    os.kill(pid, signal.SIGKILL)

    def is_replaced() -> None:
        after = members(cluster, other)
        assert after.keys() == before.keys()
        assert after[node.name] != before[node.name]

    eventually("the member is replaced", is_replaced, seconds=JOINS, pause=1)
    wait_until_well(cluster)
    with open_keys(cluster, node) as keys:
        assert keys.get("kept") == "by the others"


def test_the_quorum_is_checked_before_a_member_goes(cluster: Cluster) -> None:
    first, second, third = cluster.nodes[:3]
    ids = members(cluster, first)
    pid = find_etcd(third)
    os.kill(pid, signal.SIGSTOP)
    try:
        # Each waits for the member's answer: all at once.
        with ThreadPoolExecutor() as pool:
            refuse = partial(refused, cluster, first)
            remove = pool.submit(refuse, "etcd", "remove-member", ids[second.name])
            leave = pool.submit(refuse, "etcd", "leave")
            reset = pool.submit(refuse, "reset", "--wait=false")
            upgrade = pool.submit(check_upgrade, cluster, first)
        assert "2 voting members of which 1 are healthy, its quorum needs 2" in remove.result()
        assert "its quorum needs 2" in leave.result()
        assert "this node can't leave etcd" in reset.result()
        assert "all etcd members must be healthy to perform an upgrade" in upgrade.result()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until_well(cluster)
    end_upgrade(cluster, first)
    assert members(cluster, first) == ids


def test_one_control_plane_node_is_upgraded_at_a_time(cluster: Cluster) -> None:
    first, second = cluster.nodes[:2]
    for node, other in ((first, second), (second, first)):
        take_upgrade_lock(cluster, node)
        take_upgrade_lock(cluster, node)  # its own refuses no upgrade
        assert f"{node.name} is being upgraded and holds the lock" in check_upgrade(cluster, other)
        end_upgrade(cluster, other)
        end_earlier_upgrades(cluster, other)
        end_earlier_upgrades(cluster, node)
        assert check_upgrade(cluster, other) != ""
        end_upgrade(cluster, node)


def test_calls_in_the_wrong_place_are_refused(cluster: Cluster) -> None:
    first, worker = cluster.nodes[0], cluster.nodes[3]
    assert "code = AlreadyExists desc = etcd data directory is not empty" in refused(
        cluster, first, "bootstrap"
    )
    assert "bootstrap is only available on control plane nodes" in refused(cluster, worker, "bootstrap")
    assert "member list is only available on control plane nodes" in refused(
        cluster, worker, "etcd", "members"
    )
    assert "code = NotFound desc = etcdserver: member not found" in refused(
        cluster, first, "etcd", "remove-member", "123", code=Exit.FAILED
    )
    assert "is no version of etcd" in refused(cluster, first, "etcd", "downgrade", "validate", "abc")
    (validated,) = call_node(cluster, first, "etcd", "downgrade", "validate", "3.6")
    assert validated["MESSAGE"].startswith("downgrade validate success, cluster version 3.")
    assert cluster.talosctl("-n", str(first.address), "etcd", "alarm", "list").stdout == ""
    cluster.talosctl("-n", str(first.address), "etcd", "defrag")


@pytest.mark.parametrize("side", ["true", "false"])
def test_health_is_checked_from_both_sides(cluster: Cluster, side: str) -> None:
    argv = ("-n", cluster.addresses[0], "health", f"--server={side}", "--wait-timeout", f"{JOINS:g}s")
    lines: list[str] = []
    with subprocess.Popen(
        cluster.command(*argv), env=cluster.environment, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stderr is not None
        for line in client.stderr:
            lines.append(line.strip())
            if line.startswith("waiting for kubelet to be healthy"):
                break  # which has no image here
        client.kill()
    met = [line.removeprefix("waiting for ").removesuffix(": OK") for line in lines if line.endswith(": OK")]
    assert met == [
        "etcd to be healthy",
        "etcd members to be consistent across nodes",
        "etcd members to be control plane nodes",
        "apid to be ready",
        "no diagnostics",
    ], "\n".join(lines)


@pytest.fixture(scope="module")
def snapshot(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "etcd.snapshot"
    with open_keys(cluster, cluster.nodes[0]) as keys:
        keys.put("saved", "in the snapshot")
    cluster.talosctl("-n", cluster.addresses[0], "etcd", "snapshot", str(path))
    return path


@pytest.fixture(scope="module")
def scheduled(cluster: Cluster, snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the upgrade controller has saved after that, decrypted with the owner's key."""
    folder, key = tmp_path_factory.mktemp("scheduled"), AGE.x25519.Identity.generate()
    roles = ("--roles", "os:upgrade,os:etcd:backup", "--crt-ttl", "1h")
    cluster.talosctl(
        *("-n", cluster.addresses[0], "config", "new", *roles, str(folder / "backup.talosconfig"))
    )
    (folder / "backup.key").write_text(str(key))
    (folder / "backups").mkdir()
    (folder / "release.pub").write_bytes(format_public(Ed25519PrivateKey.generate().public_key()))
    config = {
        "channel": {"image": "127.0.0.1:1/installer:stable", "keys": ["release.pub"]},  # which is down
        "talosconfig": "backup.talosconfig",
        "status": "status.json",
        "snapshots": {"recipients": [str(key.to_public())], "folder": "backups"},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "talos.upgrade_controller.main", "run", "--once"]
    command += ["--config", str(folder / "config.yaml")]
    run_command(command, env=cluster.environment, check=False, timeout=JOINS)
    status = json.loads((folder / "status.json").read_text())
    assert (status["state"], status["snapshot"]["state"]) == ("error", "current"), status
    assert status["snapshot"]["node"] != leader(cluster, cluster.nodes[0]).name, "a follower is called"
    (encrypted,) = (folder / "backups").iterdir()
    path = folder / "etcd.snapshot"
    cluster.talosctl(
        "etcd", "decrypt-snapshot", "--identity", str(folder / "backup.key"), str(encrypted), str(path)
    )
    return path


def test_a_cluster_is_recovered_from_a_snapshot(snapshot: Path, scheduled: Path, tmp_path: Path) -> None:
    data = snapshot.read_bytes()
    for name, content in (
        ("truncated", data[:-1000]),
        ("text", b"no database" * 1000),
        ("damaged", data[:9000] + b"x" + data[9001:]),
    ):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "copy").write_bytes(scheduled.read_bytes()[:-32])
    with running_cluster(tmp_path, bootstrap=False) as cluster:
        (node,) = cluster.nodes

        def refuses(name: str) -> str:
            return refused(cluster, node, "bootstrap", "--recover-from", str(tmp_path / name))

        eventually("the node takes a bootstrap", lambda: _assert_in("it is truncated", refuses("truncated")))
        assert "is no snapshot of etcd" in refuses("text")
        assert "is damaged" in refuses("damaged")
        assert "a copy of the database" in refuses("copy")
        recover = ("bootstrap", "--recover-from", str(tmp_path / "copy"), "--recover-skip-hash-check")
        cluster.talosctl("-n", str(node.address), *recover)
        wait_until_well(cluster)
        with open_keys(cluster, node) as keys:
            assert keys.get("saved") == "in the snapshot"
            keys.put("new", "life")
        assert members(cluster, node).keys() == {node.name}


def test_two_nodes_that_are_bootstrapped_at_once_are_one_cluster(tmp_path: Path) -> None:
    with running_cluster(tmp_path, controlplanes=2, bootstrap=False) as cluster:
        first, second = cluster.nodes

        def are_ready() -> None:
            for node, other in ((first, second), (second, first)):
                states = cluster.services(str(node.address))
                assert states.get("etcd", {}).get("STATE") == "Preparing", states
                known = {row["ID"] for row in call_node(cluster, node, "get", "members")}
                assert other.name in known, known

        eventually("both wait and know each other", are_ready)
        with ThreadPoolExecutor() as pool:
            results = [
                pool.submit(
                    cluster.talosctl,
                    "-e",
                    str(node.address),
                    "-n",
                    str(node.address),
                    "bootstrap",
                    check=False,
                )
                for node in (first, second)
            ]
        codes = [result.result().returncode for result in results]
        assert codes != [0, 0]
        if codes == [1, 1]:
            cluster.bootstrap()
        wait_until_well(cluster)
        assert members(cluster, first) == members(cluster, second)


def _assert_in(part: str, text: str) -> None:
    assert part in text


def test_a_node_that_is_reset_leaves_first(cluster: Cluster) -> None:
    node, other = cluster.nodes[2], cluster.nodes[0]
    cluster.talosctl("-e", str(node.address), "-n", str(node.address), "reset", "--wait=false")

    def has_left() -> None:
        assert members(cluster, other).keys() == {one.name for one in cluster.nodes[:2]}

    eventually("the node has left", has_left, seconds=JOINS, pause=0.5)
