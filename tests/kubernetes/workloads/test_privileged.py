"""Pods that change their network, and an agent on each node that sees all of it."""

from typing import Any

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import EVERYWHERE, SLEEP, make_container, make_head, make_pod, make_pod_spec
from tests.kubernetes.workloads.manifests import make_namespace

pytestmark = pytest.mark.soak

NAMESPACE, AGENT = "agents", "agent"
ADDRESS = "192.0.2.1"
CHANGE_NETWORK = f"busybox ip address add {ADDRESS}/32 dev lo && busybox ip address show dev lo"
CHECKS = """\
cat /proc/1/comm
. /host/etc/os-release && echo $ID
ls /host/var/log/pods | grep -c .
test -c /dev/kmsg && echo kmsg
busybox ip -o address show | grep -c .
mkdir -p /host/var/agent && busybox mount -t tmpfs none /host/var/agent && echo mounted
"""


@pytest.fixture(scope="module", autouse=True)
def namespace(workloads: Kubernetes) -> None:
    """Where pods may be privileged."""
    workloads.apply(make_namespace(NAMESPACE))
    workloads.wait_for("serviceaccount/default", "create", namespace=NAMESPACE)


def test_a_pod_with_net_admin_changes_its_own_network(workloads: Kubernetes) -> None:
    security = {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}
    pod = make_pod("router", CHANGE_NETWORK, securityContext=security)
    with pytest.raises(
        AssertionError, match='violates PodSecurity "baseline:latest": non-default capabilities'
    ):
        workloads.apply(pod)
    plain = make_pod("plain", CHANGE_NETWORK, securityContext={"runAsUser": 0})
    for each in (pod, plain):
        each["metadata"]["namespace"] = NAMESPACE
    workloads.apply(pod, plain)
    workloads.wait_for("pod/router", "jsonpath={.status.phase}=Succeeded", namespace=NAMESPACE)
    assert f"{ADDRESS}/32" in workloads.kubectl("logs", "router", "-n", NAMESPACE).stdout
    workloads.wait_for("pod/plain", "jsonpath={.status.phase}=Failed", namespace=NAMESPACE)
    assert "Operation not permitted" in workloads.kubectl("logs", "plain", "-n", NAMESPACE).stdout


def make_agent() -> dict[str, Any]:
    """What programs for logs, metrics and networks are: privileged, on every node, in its namespaces."""
    container = make_container(
        f"{CHECKS}\n{SLEEP}",
        securityContext={"privileged": True, "runAsUser": 0},
        volumeMounts=[{"name": "host", "mountPath": "/host", "mountPropagation": "Bidirectional"}],
    )
    fields: dict[str, Any] = {"hostPID": True, "hostNetwork": True, "tolerations": EVERYWHERE}
    spec = make_pod_spec(container, **fields, volumes=[{"name": "host", "hostPath": {"path": "/"}}])
    labels = {"app": AGENT}
    template = {"metadata": {"labels": labels}, "spec": spec}
    head = make_head("DaemonSet", AGENT, version="apps/v1", namespace=NAMESPACE)
    return {**head, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_a_privileged_agent_sees_every_node(workloads: Kubernetes) -> None:
    workloads.apply(make_agent())
    workloads.roll_out(AGENT, kind="daemonset", namespace=NAMESPACE)
    nodes = {node.name: str(node.address) for node in workloads.cluster.nodes}
    pods = workloads.get("pods", "-n", NAMESPACE, "-l", f"app={AGENT}")
    assert {pod["spec"]["nodeName"] for pod in pods} == nodes.keys()
    for pod in pods:
        name, address = pod["metadata"]["name"], nodes[pod["spec"]["nodeName"]]
        assert pod["status"]["podIP"] == address

        def has_mounted(name: str = name) -> list[str]:
            lines = workloads.kubectl("logs", name, "-n", NAMESPACE).stdout.split()
            assert lines[-1:] == ["mounted"], lines
            return lines

        first, system, logs, kmsg, addresses, _ = eventually("it has seen its node", has_mounted)
        assert (first, system, kmsg) == ("init", "talos", "kmsg")
        assert int(logs) > 1
        assert int(addresses) > 1
        # What it mounts is the node's, too.
        mounts = workloads.cluster.talosctl("-n", address, "read", "/proc/mounts").stdout
        assert " /var/agent tmpfs " in mounts
    workloads.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
