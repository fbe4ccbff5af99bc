"""Several nodes: each through each, and one that is not there."""

import json
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.request import urlopen

from tests.harness.cluster import Cluster, check_services

from talos.talosctl.cli.exit import Exit

PAGE_TIMEOUT = 60.0  # seconds
SYSCTL = """---
apiVersion: v1alpha1
kind: SysctlConfig
params:
    net.ipv4.ip_default_ttl: "65"
"""


def test_two_rows_through_either_endpoint(cluster: Cluster) -> None:
    first, second = cluster.addresses[:2]
    for endpoint in (first, second):
        rows = cluster.rows("-e", endpoint, "-n", f"{first},{second}", "memory")
        assert sorted(row["NODE"] for row in rows) == sorted((first, second))


def test_a_worker_is_reached_through_the_control_plane_and_directly(cluster: Cluster) -> None:
    control_plane, worker = cluster.addresses[0], cluster.addresses[2]
    for endpoint in (control_plane, worker):
        assert "trustd" not in {
            row["SERVICE"] for row in cluster.rows("-e", endpoint, "-n", worker, "services")
        }
    check_services(cluster, worker)


def test_a_node_that_is_not_there_is_named_and_the_others_answer(cluster: Cluster) -> None:
    first, second = cluster.addresses[:2]
    missing = first.rpartition(".")[0] + ".200"
    result = cluster.talosctl("-e", first, "-n", f"{first},{missing},{second}", "memory", check=False)
    assert result.returncode != 0
    assert missing in result.stderr
    assert first in result.stdout
    assert second in result.stdout


def test_another_endpoint_is_taken_when_the_first_is_unreachable(cluster: Cluster) -> None:
    first, second = cluster.addresses[:2]
    missing = first.rpartition(".")[0] + ".200"
    assert cluster.rows("-e", f"{missing},{second}", "-n", second, "memory")


def test_nodes_have_their_own_names_and_boot_ids(cluster: Cluster) -> None:
    names = {row["HOSTNAME"] for row in cluster.rows("-n", ",".join(cluster.addresses), "get", "hostname")}
    assert names == {node.name for node in cluster.nodes}
    path = "/proc/sys/kernel/random/boot_id"
    boots = {cluster.talosctl("-n", address, "read", path).stdout for address in cluster.addresses}
    assert len(boots) == 3


def test_a_worker_passes_nothing_on_to_other_nodes(cluster: Cluster) -> None:
    first, second, worker = cluster.addresses[:3]
    for targets in (first, f"{first},{second}", f"{worker},{first}"):
        result = cluster.talosctl("-e", worker, "-n", targets, "memory", check=False)
        assert result.returncode != 0
        assert "no request forwarding" in result.stderr


def test_a_plan_of_configs_changes_what_it_says_and_nothing_later(cluster: Cluster, tmp_path: Path) -> None:
    configs, plan = tmp_path / "configs", tmp_path / "plan.json"
    configs.mkdir()
    for node in cluster.nodes:
        argv = ("-n", str(node.address), "get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}")
        (configs / f"{node.name}.yaml").write_text(cluster.talosctl(*argv).stdout)
    worker = cluster.nodes[2]
    file, argv = configs / f"{worker.name}.yaml", ("plan", "--file", str(configs))
    before = file.read_text()
    assert "nothing to change\n" in cluster.talosctl(*argv).stdout
    for text in (before + SYSCTL, before):
        file.write_text(text)
        shown = cluster.talosctl(*argv, check=False)
        assert shown.returncode == Exit.CHANGES, shown.stderr
        assert f"3. {worker.address} ({worker.name}), worker: changes without a reboot\n" in shown.stdout
        assert "1 of 3 nodes to change, without a reboot\n" in shown.stdout
        plan.write_text(cluster.talosctl(*argv, "--output", "json", check=False).stdout)
        cluster.talosctl("apply", "--plan", str(plan))
        assert "nothing to change\n" in cluster.talosctl(*argv).stdout
    again = cluster.talosctl("apply", "--plan", str(plan), check=False)
    assert again.returncode == Exit.REFUSED
    assert f"{worker.address} ({worker.name}) has another config" in again.stderr


def test_a_plan_of_a_release_names_the_order(cluster: Cluster) -> None:
    nodes = cluster.addresses
    refused = cluster.talosctl("plan", "--image", "installer:v1.15.1", check=False)
    assert "etcd has 2 members" in refused.stderr
    shown = cluster.talosctl("-n", nodes[2], "plan", "--image", "installer:v1.15.1", check=False)
    assert shown.returncode == Exit.CHANGES, shown.stderr
    assert f"1. {nodes[2]} " in shown.stdout
    assert "1 of 1 nodes to change, for 1 with a reboot\n" in shown.stdout


def test_the_fleet_page_shows_all_nodes_to_a_reader(cluster: Cluster, tmp_path: Path) -> None:
    first, reader = cluster.addresses[0], tmp_path / "reader"
    cluster.talosctl("-n", first, "config", "new", "--roles", "os:reader", str(reader))
    argv = cluster.command("--talosconfig", str(reader), "-e", first, "dashboard", "--web")
    found: dict[str, dict[str, Any]] = {}
    with Popen(argv, env=cluster.environment, stderr=PIPE, text=True) as serving:
        try:
            assert serving.stderr
            with urlopen(f"{serving.stderr.readline().strip()}events", timeout=PAGE_TIMEOUT) as events:
                for line in events:
                    if line.startswith(b"data: "):
                        found |= {
                            node["name"]: node for node in json.loads(line[6:])["nodes"] if node["version"]
                        }
                    if len(found) == len(cluster.nodes):
                        break
        finally:
            serving.terminate()
    assert {name: node["error"] for name, node in found.items()} == {node.name: "" for node in cluster.nodes}
    assert [bool(found[node.name]["etcd"]) for node in cluster.nodes] == [True, True, False]
