"""Snapshots as events of their policy, and as metrics."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

from talos.kubernetes.client import KubernetesClient
from talos.upgrade_controller.reports import SnapshotCounts, record_event
from talos.upgrade_controller.snapshots.schedule import Outcome

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
TAKEN, FAILED = Outcome(is_taken=True, message="a snapshot"), Outcome(is_taken=False, message="x" * 5000)


class Client:
    """The API of Kubernetes, which takes what it is given."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, dict[str, Any]]] = []

    async def call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.written.append((method, path, body))
        return {}


def test_each_snapshot_is_an_event_of_its_policy() -> None:
    client = Client()
    metadata: dict[str, Any] = {
        "name": "stable",
        "namespace": "talos-upgrade",
        "uid": "1",
        "resourceVersion": "2",
        "labels": {},
    }
    for outcome in (TAKEN, FAILED):
        asyncio.run(record_event(cast("KubernetesClient", client), {"metadata": metadata}, outcome, NOON))
    (method, path, taken), (_, _, failed) = client.written
    assert (method, path) == ("POST", "/api/v1/namespaces/talos-upgrade/events")
    assert taken["involvedObject"] == {
        "apiVersion": "talos.dev/v1alpha1",
        "kind": "UpgradePolicy",
        "name": "stable",
        "namespace": "talos-upgrade",
        "uid": "1",
        "resourceVersion": "2",
    }
    assert (taken["type"], taken["reason"], taken["message"]) == ("Normal", "SnapshotTaken", "a snapshot")
    assert taken["firstTimestamp"] == "2026-11-28T12:00:00Z"
    assert (failed["type"], failed["reason"], len(failed["message"])) == ("Warning", "SnapshotFailed", 1024)


def test_metrics_outlive_the_pod_but_not_the_policy() -> None:
    counts = SnapshotCounts()
    for outcome in (TAKEN, FAILED, TAKEN):
        counts.add("stable", outcome)
    statuses = {"stable": {"time": NOON.isoformat()}, "new": {"time": "", "state": "running"}}
    lines = counts.format(statuses).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'talos_etcd_snapshots_total{policy="stable",result="taken"} 2',
        'talos_etcd_snapshots_total{policy="stable",result="failed"} 1',
        'talos_etcd_snapshots_total{policy="new",result="taken"} 0',
        'talos_etcd_snapshots_total{policy="new",result="failed"} 0',
        f'talos_etcd_snapshot_timestamp_seconds{{policy="stable"}} {NOON.timestamp():.0f}',
    ]
    assert "# TYPE talos_etcd_snapshots_total counter" in lines
    counts.forget("stable")
    assert counts.format({}) == ""
    assert 'policy="stable",result="taken"} 0' in counts.format(statuses), "one of the same name begins anew"
