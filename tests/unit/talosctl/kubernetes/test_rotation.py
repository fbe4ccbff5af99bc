"""While the CA of Kubernetes is rotated, all that talk to an API server go on trusting each other.

The twin of the cluster checks it at every call.
"""

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.unit.fleet.jumping import JumpingLoop
from tests.unit.talosctl.kubernetes.cluster import Cluster, authorities

from talos.pki.certificate import PemPair
from talos.system.errors import UserError
from talos.talosctl.kubernetes.rotation import KubernetesRotation, RotationOptions, make_kubernetes_authority


@dataclass
class Rotation:
    """Runs rotations of one cluster's CA to a new one."""

    cluster: Cluster = field(default_factory=Cluster)
    lines: list[str] = field(default_factory=list[str])

    def run(self, new: PemPair, *, dry_run: bool = False) -> None:
        options = RotationOptions(
            nodes=self.cluster.cluster_nodes,
            endpoint="",
            dry_run=dry_run,
            docs=False,
            examples=False,
            report=self.lines.append,
        )
        rotation = KubernetesRotation(options, self.cluster.session, new, connect=self.cluster.connect)
        asyncio.run(rotation.run(), loop_factory=JumpingLoop)

    @property
    def accepted(self) -> list[list[bytes]]:
        return [authorities(node.kubelet_runs) for node in self.cluster.nodes.values()]


@pytest.fixture
def rotation() -> Rotation:
    return Rotation()


def test_every_node_goes_through_three_steps_and_only_the_new_ca_is_left(rotation: Rotation) -> None:
    cluster, new = rotation.cluster, make_kubernetes_authority()
    rotation.run(new)
    assert [node for node, _ in cluster.applied] == list(cluster.nodes) * 3
    assert rotation.accepted == [[new.crt.strip()]] * len(cluster.nodes)
    keys = [
        config.cluster.ca.key for _, config in cluster.applied[-3:] if config.cluster and config.cluster.ca
    ]
    assert keys == [new.key, new.key, b""], "a worker has no key"
    [in_cluster] = [one for path, one in cluster.objects.items() if path.endswith("/kubeconfig-in-cluster")]
    assert in_cluster["data"]["issuer"].strip() == new.crt.decode().strip()
    assert cluster.restarts == 1


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_rotation_after_one_that_was_interrupted_leaves_only_its_own_ca(
    rotation: Rotation, steps: int
) -> None:
    cluster, lost, new = rotation.cluster, make_kubernetes_authority(), make_kubernetes_authority()
    cluster.end_after = steps
    with pytest.raises(ConnectionError):
        rotation.run(lost)
    cluster.end_after = 0
    rotation.run(new)
    assert rotation.accepted == [[new.crt.strip()]] * len(cluster.nodes)


def test_a_dry_run_changes_nothing(rotation: Rotation) -> None:
    rotation.run(make_kubernetes_authority(), dry_run=True)
    cluster = rotation.cluster
    assert (cluster.applied, cluster.objects, cluster.restarts) == ([], {}, 0)
    assert rotation.lines.count("  - 10.0.0.3: skipped (dry-run)") == 3


def test_a_node_that_does_not_follow_stops_the_rotation_while_all_accept_the_old_ca(
    rotation: Rotation,
) -> None:
    cluster = rotation.cluster
    cluster.controls[1].stuck = "registry/kube-scheduler:v1.37.0"
    with pytest.raises(UserError, match=r"node 10\.0\.0\.2.*pod is not ready"):
        rotation.run(make_kubernetes_authority())
    assert [node for node, _ in cluster.applied] == ["10.0.0.1", "10.0.0.2"]
    assert {found[0] for found in rotation.accepted} == {cluster.authority.crt.strip()}
