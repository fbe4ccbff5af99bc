"""Configs in the layouts of older versions make the same cluster as a current one, but for named differences.

tests/unit/kubed/test_contracts.py compares all layouts; here Kubernetes itself shows what came of some.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kubernetes import Kubernetes, all_images, running_kubernetes

from talos.config import contract
from talos.config.contract import Contract, parse_contract
from talos.provision.configs import ConfigOptions

DIFFERENCES: Mapping[str, Contract] = {
    "label node.kubernetes.io/exclude-from-external-load-balancers": contract.NO_LOAD_BALANCER_LABEL,
    "kube-apiserver --anonymous-auth": contract.DOCUMENTS,
    "kube-apiserver --authentication-config": contract.DOCUMENTS,
    "kubelet seccompDefault": contract.SECCOMP_DEFAULT,
}
"""What differs, and the first version from which on it does not."""


def read_effects(kubernetes: Kubernetes) -> Iterator[tuple[str, Any]]:
    """The first node's labels and taints, its static pods' arguments, its kubelet's settings."""
    info = kubernetes.cluster.nodes[0]

    def name_values(text: str) -> str:
        """Without what is the cluster's own."""
        return text.replace(str(info.address), "ADDRESS").replace(info.name, "NAME")

    (node,) = kubernetes.get("node", info.name)
    for key, value in node["metadata"]["labels"].items():
        yield f"label {key}", name_values(value)
    yield "taints", node["spec"].get("taints")
    for pod in kubernetes.get("pods", "-n", "kube-system", "-l", "tier=control-plane"):
        if pod["spec"]["nodeName"] == info.name:
            (container,) = pod["spec"]["containers"]
            for word in container["command"][1:]:
                argument, _, value = word.partition("=")
                yield f"{pod['metadata']['labels']['k8s-app']} {argument}", name_values(value)
    answer = kubernetes.kubectl("get", "--raw", f"/api/v1/nodes/{info.name}/proxy/configz")
    for key, value in json.loads(answer.stdout)["kubeletconfig"].items():
        if key != "staticPodURL":  # a port of the moment
            yield f"kubelet {key}", name_values(json.dumps(value, sort_keys=True))


@pytest.mark.soak
@pytest.mark.parametrize("version", ["v1.0", "v1.5", "v1.11", "v1.13"])
def test_an_older_layout_makes_the_same_cluster(kubernetes: Kubernetes, version: str, tmp_path: Path) -> None:
    layout = parse_contract(version)
    with running_kubernetes(
        tmp_path, controlplanes=1, workers=0, images=all_images(), configs=ConfigOptions(contract=layout)
    ) as other:
        older = dict(read_effects(other))
    current = dict(read_effects(kubernetes))
    assert "kube-apiserver --secure-port" in older
    differing = {key for key in older.keys() | current.keys() if older.get(key) != current.get(key)}
    unnamed = differing - {key for key, since in DIFFERENCES.items() if layout < since}
    assert not unnamed, {key: (older.get(key), current.get(key)) for key in sorted(unnamed)}
