"""What an older config makes of a cluster is what the current one makes of it, but for named differences."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config import contract
from talos.config.arguments import KUBELET
from talos.config.contract import CONTROL_PLANE_LABEL, CURRENT, Contract
from talos.config.effective import api_server, kubernetes
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import machine as effective_machine
from talos.config.effective import network as effective_network
from talos.config.effective import secrets as effective_secrets
from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import Config, MachineType
from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.config.values import Url
from talos.kubed import pods
from talos.kubed.controllers.control_plane import (
    make_api_server,
    make_controller_manager,
    make_scheduler,
)
from talos.kubed.controllers.manifests import make_bootstrap_config
from talos.kubed.manifests.bootstrap import make_manifests
from talos.machined.controllers.cri.registries import make_registries
from talos.machined.controllers.k8s.kubelet import make_arguments, make_configuration, make_kubelet_config
from talos.resource.objects import to_plain

VERSIONS = [(1, minor) for minor in range(16)]
FLAGS: dict[str, dict[str, Any]] = {
    "default": {},
    "schedules": {"allow_scheduling_on_control_planes": True},
    "no-prism": {"kube_prism_port": 0},
    "networks": {"pod_subnets": ("10.1.0.0/16",), "service_subnets": ("10.2.0.0/16",), "dns_domain": "x.y"},
    "dual-stack": {
        "pod_subnets": ("10.1.0.0/16", "fd01::/48"),
        "service_subnets": ("10.2.0.0/16", "fd02::/112"),
    },
    "cni": {"custom_cni_url": "https://example.org/cni.yaml"},
    "no-discovery": {"with_cluster_discovery": False},
    "sans": {"additional_sans": ("kube.example.org",)},
    "mirrors": {"registry_mirrors": ("docker.io=http://10.5.0.1:5000",)},
}
DIFFERENCES: dict[str, Contract] = {
    "label node.kubernetes.io/exclude-from-external-load-balancers": contract.NO_LOAD_BALANCER_LABEL,
    f"{API_SERVER} anonymous-auth": contract.DOCUMENTS,
    f"{API_SERVER} authentication-config": contract.DOCUMENTS,
    # The authorities that the node trusts, as upstream.
    f"{API_SERVER} container volumeMounts": contract.DOCUMENTS,
    f"{API_SERVER} pod volumes": contract.DOCUMENTS,
    f"{API_SERVER} container startupProbe": contract.DOCUMENTS,  # they only connect
    f"{API_SERVER} container readinessProbe": contract.DOCUMENTS,
    f"{API_SERVER} container livenessProbe": contract.DOCUMENTS,
    f"{KUBELET} featureGates": contract.DISK_QUOTA,
    f"{KUBELET} seccompDefault": contract.SECCOMP_DEFAULT,
    "machine discovery_endpoints": contract.DOCUMENTS,  # its name: legacy
    "machine cluster_name": contract.WORKERS_HAVE_CLUSTER_NAME,
    "machine host_dns": contract.FORWARD_KUBE_DNS,
    "machine prism_port": contract.KUBE_PRISM,
    "machine auto_hostname": contract.STABLE_HOSTNAME,
    "machine has_kubernetes_registry": contract.NO_KUBERNETES_DISCOVERY,
    "machine admission_plugins": contract.POD_SECURITY,
    "machine mirrors": (1, 3),  # 1.2 has one for a registry that has moved
    "manifest ConfigMap kube-proxy": contract.DOCUMENTS,  # a file instead of arguments
    "manifest DaemonSet kube-proxy": contract.DOCUMENTS,
    "manifest DaemonSet kube-flannel": contract.KUBE_PRISM,
    "manifest 05 https://example.org/cni.yaml": contract.DOCUMENTS,  # applied in another order
    "manifest 99 custom-cni": contract.DOCUMENTS,
}
"""What differs, and the first version from which on it does not."""


@cache
def options() -> GenerateOptions:
    return GenerateOptions(
        cluster_name="demo", endpoint=Url.parse("https://10.5.0.2:6443"), secrets=SecretsBundle.generate()
    )


def make_config(version: Contract, machine: MachineType, flags: dict[str, Any]) -> Config:
    return load(render(generate_config(replace(options(), contract=version, **flags), machine)))


def read_pod(pod: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a pod's program, and all else that it has."""
    name = pod["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    for word in container["command"][1:]:
        argument, _, value = word.removeprefix("--").partition("=")
        yield f"{name} {argument}", value
    yield from ((f"{name} container {key}", value) for key, value in container.items() if key != "command")
    yield from ((f"{name} pod {key}", value) for key, value in pod["spec"].items() if key != "containers")
    yield f"{name} labels", pod["metadata"]["labels"]


def read_manifests(config: Config) -> Iterator[tuple[str, Any]]:
    """What the cluster begins with, an object each, and what the user adds."""
    found = make_manifests(make_bootstrap_config(config), KubernetesRootSpec())
    for objects in found.values():
        for one in objects:
            yield f"manifest {one['kind']} {one['metadata']['name']}", one
    for extra in kubernetes.extra_manifests(config):
        yield f"manifest {extra.priority} {extra.name}", extra


def read_machine(config: Config) -> Iterator[tuple[str, Any]]:
    """What the node's own parts read."""
    for read in (
        effective_network.nameservers, effective_network.search_domains, effective_network.time_sync,
        effective_machine.sysctls, effective_cluster.cluster_name, effective_cluster.cluster_endpoint,
        effective_cluster.discovery_endpoints, effective_cluster.has_kubernetes_registry,
        effective_cluster.api_server_port, effective_secrets.bootstrap_token,
        effective_network.virtual_addresses, effective_cluster.dns_domain, effective_network.auto_hostname,
        kubernetes.prism_port, kubernetes.api_access, api_server.audit_policy, api_server.admission_plugins,
        api_server.authorizers, kubernetes.credential_providers, kubernetes.node_ip_subnets,
    ):  # fmt: skip
        yield f"machine {read.__name__}", read(config)
    dns = effective_network.host_dns(config)
    yield "machine host_dns", (dns and dns.enabled, dns and dns.forward_kube_dns_to_host)
    yield (
        "machine mirrors",
        {
            host: [one.endpoint_endpoint for one in mirror.mirror_endpoints]
            for host, mirror in make_registries(config).registry_mirrors.items()
        },
    )


def find_effects(config: Config) -> dict[str, Any]:
    """Labels, taints, pods, the kubelet's settings, the cluster's objects, what the node's own parts read."""
    found: dict[str, Any] = dict(read_machine(config))
    found |= {f"label {key}": value for key, value in effective_cluster.node_labels(config).items()}
    found |= {f"taint {key}": value for key, value in effective_cluster.node_taints(config).items()}
    is_control_plane = config.machine_type.is_control_plane
    kubelet = make_kubelet_config(config, "http://127.0.0.1:1" if is_control_plane else "")
    found |= {f"{KUBELET} {word}": True for word in make_arguments(kubelet, "node", ["10.5.0.2"])}
    settings = to_plain(make_configuration(kubelet, is_container=False, is_control_plane=is_control_plane))
    found |= {f"{KUBELET} {name}": value for name, value in settings.items()}
    if is_control_plane:
        found |= dict(read_pod(pods.make_api_server(make_api_server(config), {}, {})))
        found |= dict(read_pod(pods.make_controller_manager(make_controller_manager(config), {})))
        found |= dict(read_pod(pods.make_scheduler(make_scheduler(config), {})))
        found |= dict(read_manifests(config))
    return found


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("machine", [MachineType.CONTROL_PLANE, MachineType.WORKER])
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version[0]}.{version[1]}")
def test_an_older_config_makes_the_same_node(version: Contract, machine: MachineType, flags: str) -> None:
    older = find_effects(make_config(version, machine, FLAGS[flags]))
    current = find_effects(make_config(CURRENT, machine, FLAGS[flags]))
    differing = {key for key in older.keys() | current.keys() if older.get(key) != current.get(key)}
    allowed = {key for key, since in DIFFERENCES.items() if version < since}
    assert differing <= allowed
    assert len({API_SERVER, CONTROLLER_MANAGER, SCHEDULER} & {key.split()[0] for key in older}) == (
        3 if machine is MachineType.CONTROL_PLANE else 0
    )


def test_a_control_plane_of_the_main_document_is_labelled_and_tainted() -> None:
    text = (
        "version: v1alpha1\nmachine: {type: controlplane, nodeLabels: {a: b}, nodeTaints: {c: NoExecute}}\n"
    )
    config = load(f"{text}cluster: {{}}\n")
    assert effective_cluster.node_labels(config) == {CONTROL_PLANE_LABEL: "", "a": "b"}
    assert effective_cluster.node_taints(config) == {CONTROL_PLANE_LABEL: "NoSchedule", "c": "NoExecute"}
    for setting in ("allowSchedulingOnControlPlanes: true", "allowSchedulingOnMasters: true"):
        assert effective_cluster.node_taints(load(f"{text}cluster: {{{setting}}}\n")) == {"c": "NoExecute"}
    both = "allowSchedulingOnControlPlanes: false, allowSchedulingOnMasters: true"
    assert CONTROL_PLANE_LABEL in effective_cluster.node_taints(load(f"{text}cluster: {{{both}}}\n"))


def test_the_document_of_a_node_says_all_of_it() -> None:
    config = load(
        "version: v1alpha1\nmachine: {type: controlplane}\ncluster: {}\n"
        "---\napiVersion: v1alpha1\nkind: KubeNodeConfig\nlabels: {a: b}\n"
    )
    assert effective_cluster.node_labels(config) == {"a": "b"}
    assert effective_cluster.node_taints(config) == {}
