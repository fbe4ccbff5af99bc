"""An upgrade of Kubernetes changes one program of one node at a time, and nothing when it must not."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.fleet.jumping import JumpingLoop
from tests.unit.talosctl.kubernetes.cluster import PROXY_PATH, Cluster

from talos.system.errors import UserError
from talos.talosctl.kubernetes.components import KUBELET, PROXY, STATIC_PODS, find_image
from talos.talosctl.kubernetes.sync import SyncOptions
from talos.talosctl.kubernetes.upgrade import KubernetesUpgrade, UpgradeOptions

SOURCE, TARGET = "1.37.0", "1.37.99"
COMPONENTS = (*STATIC_PODS, PROXY, KUBELET)


@dataclass
class Upgrade:
    """Runs upgrades of one cluster; ``lines`` is what the last one reported."""

    cluster: Cluster
    lines: list[str] = field(default_factory=list[str])

    def run(self, **changed: Any) -> None:
        self.lines.clear()
        config = self.cluster.controls[0].config
        dry_run = changed.get("dry_run", False)
        options: dict[str, Any] = {
            "source": SOURCE,
            "target": TARGET,
            "images": {one.name: find_image(config, one).rpartition(":")[0] for one in COMPONENTS},
            "nodes": self.cluster.cluster_nodes,
            "dry_run": dry_run,
            "pre_pull": True,
            "kubelet": True,
            "docs": False,
            "examples": False,
            "sync": SyncOptions(
                dry_run=dry_run,
                policy="AdoptIfNoInventory",
                prune=True,
                recreate=False,
                timeout=5,
                report=self.lines.append,
            ),
            "report": self.lines.append,
        }
        upgrade = KubernetesUpgrade(
            UpgradeOptions(**options | changed), self.cluster.session, self.cluster.connect()
        )
        asyncio.run(upgrade.run(), loop_factory=JumpingLoop)


@pytest.fixture
def upgrade() -> Upgrade:
    return Upgrade(Cluster(SOURCE))


def find_changes(cluster: Cluster) -> list[tuple[str, str]]:
    """Node and program of each change of a config: of one program at a time, to the new version."""
    before, found = dict(cluster.first), list[tuple[str, str]]()
    for node, config in cluster.applied:
        [changed] = [one for one in COMPONENTS if find_image(config, one) != find_image(before[node], one)]
        assert find_image(config, changed).endswith(f":v{TARGET}")
        before[node] = config
        found.append((node, changed.name))
    return found


CONTROLS, ALL = ("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "10.0.0.2", "10.0.0.3")
ORDER = [
    *((node, one.name) for one in (*STATIC_PODS, PROXY) for node in CONTROLS),
    *((node, KUBELET.name) for node in ALL),
]


def test_one_program_of_one_node_changes_at_a_time_the_api_servers_first(upgrade: Upgrade) -> None:
    cluster = upgrade.cluster
    upgrade.run()
    assert find_changes(cluster) == ORDER
    assert all(node.is_at_rest for node in cluster.nodes.values())
    [container] = cluster.objects[PROXY_PATH]["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f"kube-proxy:v{TARGET}")
    assert [node for node, image in cluster.pulled if "kubelet" in image] == list(ALL)
    assert [node for node, image in cluster.pulled if "apiserver" in image] == list(CONTROLS)


def test_a_second_upgrade_to_the_same_version_changes_nothing(upgrade: Upgrade) -> None:
    upgrade.run()
    upgrade.cluster.applied.clear()
    upgrade.run()
    assert not upgrade.cluster.applied
    assert " > skipped DaemonSet/kube-system/kube-proxy: no changes" in upgrade.lines


def test_an_upgrade_that_was_interrupted_goes_on_where_it_was(upgrade: Upgrade) -> None:
    cluster, [*controls] = upgrade.cluster, upgrade.cluster.controls
    controls[1].stuck = f"{find_image(controls[1].config, STATIC_PODS[0]).rpartition(':')[0]}:v{TARGET}"
    with pytest.raises(UserError, match=r"node 10\.0\.0\.2, kube-apiserver.*pod is not ready.*after 600 s"):
        upgrade.run()
    assert find_changes(cluster) == ORDER[:2]
    controls[1].stuck, controls[1].are_pods_ready = "", True
    upgrade.run()
    assert find_changes(cluster) == ORDER


def test_a_dry_run_shows_all_changes_and_makes_none(upgrade: Upgrade) -> None:
    cluster = upgrade.cluster
    upgrade.run(dry_run=True)
    assert (cluster.applied, cluster.pulled, cluster.objects) == ([], [], {})
    assert upgrade.lines.count(" > skipped in dry-run") == len(ORDER)
    updates = [line for line in upgrade.lines if line.startswith(" > update kube-apiserver")]
    assert updates == [f" > update kube-apiserver: {SOURCE} -> {TARGET}"] * len(CONTROLS)


def test_nothing_changes_when_a_node_can_not_pull_an_image(upgrade: Upgrade) -> None:
    cluster = upgrade.cluster
    cluster.unpullable = f"{find_image(cluster.controls[0].config, KUBELET).rpartition(':')[0]}:v{TARGET}"
    with pytest.raises(UserError, match=r"kubelet:v.* can't be pulled: not found.*nothing is changed yet"):
        upgrade.run()
    assert not cluster.applied


def test_nothing_changes_when_a_node_can_not_run_the_version(upgrade: Upgrade) -> None:
    upgrade.cluster.tag = "v1.3.0"
    with pytest.raises(UserError, match=r"it runs Talos 1\.3\.0, this client upgrades"):
        upgrade.run()
    assert (upgrade.cluster.applied, upgrade.cluster.pulled) == ([], [])


def test_kubelets_stay_when_they_are_left_out(upgrade: Upgrade) -> None:
    upgrade.run(kubelet=False, pre_pull=False)
    assert find_changes(upgrade.cluster) == [row for row in ORDER if row[1] != KUBELET.name]
    assert not upgrade.cluster.pulled
