"""A cluster that has the images of programs of others, and kubelets whose certificates they can verify.

Network policies are enforced on it, where the kernel can.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.kubernetes import Kubernetes, running_kubernetes
from tests.kubernetes.workloads.manifests import link_workloads

from talos.config.change.patch import parse_patch
from talos.provision.configs import ConfigOptions

SERVING_CERTIFICATES = """\
apiVersion: v1alpha1
kind: KubeletConfig
config: {serverTLSBootstrap: true}
"""
NETWORK_POLICIES = """\
apiVersion: v1alpha1
kind: KubeFlannelCNIConfig
kubeNetworkPoliciesEnabled: true
"""


@pytest.fixture(scope="package")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    images = link_workloads(folder)
    configs = ConfigOptions(
        patches=[parse_patch(SERVING_CERTIFICATES)],
        control_plane_patches=[parse_patch(NETWORK_POLICIES)],
    )
    with running_kubernetes(folder, controlplanes=1, workers=1, images=images, configs=configs) as kubernetes:
        yield kubernetes
