"""The API server and etcd of one control plane node are killed: the others answer, and they come back."""

from functools import partial

import pytest
from tests.harness.availability import watched
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import make_pod
from tests.kubernetes.redundant.test_reboot import check_outage
from tests.kubernetes.test_self_healing import HEALING_TIMEOUT, check_health, kill

from talos.provision.cluster import NodeInfo


def find_leader(kubernetes: Kubernetes) -> NodeInfo:
    """The node whose etcd leads."""
    for node in kubernetes.cluster.nodes[:3]:
        (status,) = kubernetes.cluster.rows("-n", str(node.address), "etcd", "status")
        if status["LEADER"] == status["MEMBER"]:
            return node
    raise AssertionError("no member of etcd leads")


@pytest.mark.soak
@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_the_others_answer_for_what_is_killed(redundant: Kubernetes, program: str) -> None:
    """For the soak: `make test` has what a single control plane node does about it."""
    leader = eventually("etcd has a leader", partial(find_leader, redundant))
    worker = redundant.cluster.nodes[-1]
    with watched(redundant) as endpoint, watched(redundant, worker) as prism:
        kill(leader, program)
        eventually("all is well", partial(check_health, redundant), seconds=HEALING_TIMEOUT, pause=0.5)
    check_outage(program, endpoint, prism)
    redundant.apply(make_pod("proof", "echo done", node=leader.name))
    redundant.wait_for("pod/proof", "jsonpath={.status.phase}=Succeeded")
    redundant.delete("pod/proof", wait=True)
