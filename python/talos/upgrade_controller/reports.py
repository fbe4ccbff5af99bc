"""Snapshots as events of Kubernetes, and as metrics for Prometheus."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from talos.kubernetes.client import KubernetesClient
from talos.kubernetes.watch import Object
from talos.talosctl.metrics.families import Sample, format_samples
from talos.upgrade_controller.manifests import GROUP, KIND, PROGRAM, VERSION
from talos.upgrade_controller.snapshots.schedule import Outcome, parse_time

TOTAL, TIMESTAMP = "talos_etcd_snapshots_total", "talos_etcd_snapshot_timestamp_seconds"
FAMILIES = {
    TOTAL: ("counter", "Snapshots of etcd since the start of the controller, by result: taken, failed."),
    TIMESTAMP: ("gauge", "When the last one that was taken began, in seconds since 1970."),
}
MAX_MESSAGE = 1024
"""Characters of an event's message."""


async def record_event(client: KubernetesClient, policy: Object, outcome: Outcome, now: datetime) -> None:
    """Write what became of a snapshot beside its policy; KubernetesError."""
    metadata, time = policy["metadata"], now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace = metadata["namespace"]
    event = {
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            **{key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")},
        },
        "reason": "SnapshotTaken" if outcome.is_taken else "SnapshotFailed",
        "message": outcome.message[:MAX_MESSAGE],
        "type": "Normal" if outcome.is_taken else "Warning",
        "source": {"component": PROGRAM},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
    await client.call("POST", f"/api/v1/namespaces/{quote(namespace)}/events", event)


class SnapshotCounts:
    """How many snapshots were taken, and how many failed, by their policy."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, bool]] = Counter()

    def add(self, policy: str, outcome: Outcome) -> None:
        """Count one."""
        self._counts[policy, outcome.is_taken] += 1

    def forget(self, policy: str) -> None:
        """Drop the counts of a policy that is gone."""
        for is_taken in (True, False):
            del self._counts[policy, is_taken]

    def format(self, statuses: Mapping[str, Mapping[str, str]]) -> str:
        """The text of a scrape, of the policies that have a status of snapshots."""
        samples: list[Sample] = []
        for policy, status in statuses.items():
            for is_taken, result in ((True, "taken"), (False, "failed")):
                labels = {"policy": policy, "result": result}
                samples.append(Sample(TOTAL, self._counts[policy, is_taken], labels))
            # The status outlives the pod.
            if (time := parse_time(status.get("time", ""))) is not None:
                samples.append(Sample(TIMESTAMP, time.timestamp(), {"policy": policy}))
        return format_samples(samples, FAMILIES)
