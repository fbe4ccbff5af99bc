"""`kubeNetworkPoliciesEnabled`: kube-network-policies beside flannel, which decides what reaches a pod."""

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.policies import check_enforced

pytestmark = pytest.mark.soak

LOG = (
    *("logs", "--namespace", "kube-system", "--container", "kube-network-policies"),
    *("--selector", "k8s-app=kube-flannel", "--tail", "-1"),
)
WATCHES, NO_QUEUE = "Policy engine is ready", '"syncing nftables rules" logger="nftables-sync" error='


def test_a_policy_is_enforced_where_the_kernel_has_queues(workloads: Kubernetes) -> None:
    """Nodes that are containers have the kernel of this machine, which may lack NFT_QUEUE."""

    def watches() -> str:
        log = workloads.kubectl(*LOG).stdout
        assert log.count(WATCHES) == len(workloads.cluster.nodes), log
        return log

    log = eventually("it may read what it needs on every node", watches)
    workloads.check_pods()
    if NO_QUEUE in log:
        pytest.skip("the kernel of this machine has no queues of nftables")
    check_enforced(workloads)
