"""A share of a server in a pod, as a volume."""

import pytest
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.nfs import check_nfs, has_client

pytestmark = pytest.mark.soak


def test_nodes_mount_a_share(workloads: Kubernetes) -> None:
    """On machines, whose kernel has NFS, tests/netboot/test_kubernetes.py has the same."""
    if not has_client(workloads):
        pytest.skip("the kernel of this machine mounts no NFS")
    check_nfs(workloads)
