"""Objects are brought to what manifests have; others' are left alone, what is gone is deleted."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.kubernetes.twin import Twin, make_map

from talos.kubernetes.client import KubernetesError
from talos.kubernetes.inventory import OWNER, identify, read_inventory, write_inventory
from talos.system.errors import UserError
from talos.talosctl.kubernetes.sync import SyncOptions, find_unfinished, make_diff, sync_manifests

MAPS = "/api/v1/namespaces/default/configmaps"


class Cluster:
    """A twin, and what was reported."""

    def __init__(self) -> None:
        self.twin = Twin()
        self.lines: list[str] = []
        self.options = SyncOptions(
            dry_run=False,
            policy="AdoptIfNoInventory",
            prune=True,
            recreate=False,
            timeout=5,
            report=self.lines.append,
        )

    def sync(self, *manifests: dict[str, Any], **options: Any) -> list[str]:
        self.lines.clear()
        asyncio.run(sync_manifests(self.twin, manifests, replace(self.options, **options)))
        return [line for line in self.lines if line.startswith((" <", " >"))]

    def names(self) -> set[str]:
        return {path.rpartition("/")[2] for path in self.twin.objects if path.startswith(MAPS)}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_changes_are_made_and_shown(cluster: Cluster) -> None:
    assert cluster.sync(make_map("a", key="1")) == [" < created ConfigMap/default/a"]
    assert cluster.sync(make_map("a", key="1")) == [" > skipped ConfigMap/default/a: no changes"]
    assert cluster.sync(make_map("a", key="2")) == [" < configured ConfigMap/default/a"]
    diff = "\n".join(cluster.lines)
    assert "--- a/v1.ConfigMap/default/a\n" in diff
    assert "-  key: '1'\n+  key: '2'\n" in diff
    assert cluster.lines[-2:] == ["waiting for kubernetes objects to be fully reconciled", "done"]


def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    cluster.sync(make_map("a", key="1"), make_map("b"))
    before = dict(cluster.twin.objects)
    lines = cluster.sync(make_map("a", key="2"), dry_run=True)
    assert lines == [" < configured ConfigMap/default/a", " < deleted ConfigMap/default/b"]
    assert cluster.twin.objects == before


def test_what_no_manifest_has_any_more_is_deleted_unless_it_is_kept(cluster: Cluster) -> None:
    cluster.sync(make_map("a"), make_map("b"))
    cluster.sync(make_map("a"), prune=False)
    assert cluster.names() == {"a", "b"}
    assert cluster.sync(make_map("a"))[-1] == " < deleted ConfigMap/default/b"
    assert cluster.names() == {"a"}
    assert asyncio.run(read_inventory(cluster.twin)) == {identify(make_map("a"))}


def test_what_is_not_recorded_is_never_deleted(cluster: Cluster) -> None:
    cluster.twin.objects[f"{MAPS}/user"] = make_map("user")
    cluster.sync(make_map("a"))
    assert cluster.names() == {"a", "user"}


@pytest.mark.parametrize(
    ("owner", "policy", "status"),
    [
        (None, "MustMatch", "Empty"),
        ("another", "MustMatch", "NoMatch"),
        ("another", "AdoptIfNoInventory", "NoMatch"),
        (None, "AdoptIfNoInventory", ""),
        (None, "AdoptAll", ""),
        ("another", "AdoptAll", ""),
    ],
)
def test_the_policy_decides_whose_objects_change(
    cluster: Cluster, owner: str | None, policy: str, status: str
) -> None:
    live = make_map("a", key="1")
    live["metadata"]["annotations"] = {OWNER: owner} if owner else {}
    cluster.twin.objects[f"{MAPS}/a"] = live
    if not status:
        assert cluster.sync(make_map("a", key="2"), policy=policy) == [" < configured ConfigMap/default/a"]
        return
    with pytest.raises(UserError, match=f"status: {status}, policy: {policy}"):
        cluster.sync(make_map("a", key="2"), policy=policy)
    assert cluster.twin.objects[f"{MAPS}/a"]["data"] == {"key": "1"}


def test_a_refused_object_stops_no_other_but_the_deletions() -> None:
    def refuse(method: str, path: str) -> None:
        if path.endswith("/bad") and method == "PATCH":
            raise KubernetesError(422, "is invalid")

    cluster = Cluster()
    cluster.twin = Twin(refuse)
    asyncio.run(write_inventory(cluster.twin, added=[identify(make_map("old"))]))
    cluster.twin.objects[f"{MAPS}/old"] = make_map("old")
    with pytest.raises(UserError, match="ConfigMap/default/bad: is invalid"):
        cluster.sync(make_map("bad"), make_map("good"))
    assert cluster.names() == {"good", "old"}


def test_values_of_secrets_are_not_shown() -> None:
    old = {"kind": "Secret", "data": {"same": "c2FtZQ==", "other": "b2xk"}}
    new = {"kind": "Secret", "data": {"same": "c2FtZQ==", "other": "bmV3"}}
    diff = make_diff("v1.Secret/a", old, new)
    assert "other: '*** (before)'" in diff
    assert "other: '*** (after)'" in diff
    assert not {"c2FtZQ==", "b2xk", "bmV3"} & set(diff.split())


def test_a_rollout_is_done_when_new_pods_serve() -> None:
    found: dict[str, Any] = {"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}}
    assert find_unfinished(found) == "its change is not seen yet"
    found["status"] = {"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1}
    assert find_unfinished(found) == "2 of 2 pods are updated, 1 are available"
    found["status"]["availableReplicas"] = 2
    assert not find_unfinished(found)
