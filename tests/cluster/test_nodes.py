"""Several nodes: each through each, and one that is not there."""

from tests.harness.cluster import Cluster, check_services


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
