"""Resources that existing clients look for on every control plane node, by id and owner."""

import csv
from pathlib import Path
from typing import cast

import pytest
from tests.harness.cluster import Cluster, eventually

TABLE = Path(__file__).parents[1] / "data/node_resources.tsv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines(), delimiter="\t"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["type"])
def test_resources_of_a_control_plane_node(cluster: Cluster, row: dict[str, str]) -> None:
    def check() -> None:
        found = [
            cast("dict[str, object]", resource["metadata"]) for resource in cluster.resource(row["type"])
        ]
        by_id = {str(metadata["id"]): metadata.get("owner") or "" for metadata in found}
        wanted = row["ids"].split(",")
        assert set(wanted) <= by_id.keys(), sorted(by_id)
        assert {by_id[name] for name in wanted} == {row["owner"]}

    eventually("they are there", check)


def test_the_bill_of_materials_has_its_short_name(cluster: Cluster) -> None:
    (item,) = cluster.resource("sbom", "github.com/containerd/containerd/v2")
    spec = cast("dict[str, object]", item["spec"])
    assert str(spec["purls"]).startswith("['pkg:golang/github.com/containerd/containerd/v2@v2.")
    assert "Apache-2.0" in str(spec["license"])
    (kernel,) = cluster.resource("sbom", "kernel")
    assert "cpe:2.3:o:linux:linux_kernel:6.12." in str(kernel["spec"])


def test_daemons_are_containers_and_their_restart_is_seen(cluster: Cluster) -> None:
    before = {row["ID"]: row["PID"] for row in cluster.rows("containers")}
    daemons = {"apid", "clusterd", "dnsd", "networkd", "routerd", "timed", "trustd"}
    assert before.keys() >= daemons, "beside the containers of services"
    used = {row["CONTAINER"]: float(row["MEMORY(MB)"]) for row in cluster.rows("stats")}
    assert all(used[name] > 0 for name in daemons)
    cluster.talosctl("restart", "timed")

    def is_restarted() -> None:
        now = {row["ID"]: row["PID"] for row in cluster.rows("containers")}
        assert now.get("timed", before["timed"]) != before["timed"]
        assert cluster.services()["timed"]["HEALTH"] == "OK"

    eventually("timed runs anew", is_restarted)
    refused = cluster.talosctl("restart", "nope", check=False)
    assert 'container "nope" not found' in refused.stderr
