"""What an older config makes of a cluster is what the current one makes of it, but for named differences."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from talos.config import contract
from talos.config.arguments import KUBELET
from talos.config.contract import CONTROL_PLANE_LABEL, CURRENT, Contract
from talos.config.effective import machine as effective
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
from talos.machined.controllers.k8s.kubelet import make_arguments, make_configuration, make_kubelet_config
from talos.resource.objects import to_plain

VERSIONS = [(1, minor) for minor in range(16)]
FLAGS: dict[str, dict[str, Any]] = {
    "default": {},
    "schedules": {"allow_scheduling_on_control_planes": True},
    "no-prism": {"kube_prism_port": 0},
    "networks": {"pod_subnets": ("10.1.0.0/16",), "service_subnets": ("10.2.0.0/16",), "dns_domain": "x.y"},
}
DIFFERENCES: dict[str, Contract] = {
    "label node.kubernetes.io/exclude-from-external-load-balancers": contract.NO_LOAD_BALANCER_LABEL,
    f"{API_SERVER} anonymous-auth": contract.DOCUMENTS,
    f"{API_SERVER} authentication-config": contract.DOCUMENTS,
    f"{KUBELET} seccompDefault": contract.SECCOMP_DEFAULT,
}
"""What differs, and the first version from which on it does not."""


@cache
def options() -> GenerateOptions:
    return GenerateOptions(
        cluster_name="demo", endpoint=Url.parse("https://10.5.0.2:6443"), secrets=SecretsBundle.generate()
    )


def make_config(version: Contract, machine: MachineType, flags: dict[str, Any]) -> Config:
    return load(render(generate_config(replace(options(), contract=version, **flags), machine)))


def read_arguments(pod: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    name = pod["metadata"]["name"]
    for word in pod["spec"]["containers"][0]["command"][1:]:
        argument, _, value = word.removeprefix("--").partition("=")
        yield f"{name} {argument}", value


def find_effects(config: Config) -> dict[str, Any]:
    """The node's labels and taints, the arguments of its programs, the kubelet's settings."""
    found: dict[str, Any] = {}
    found |= {f"label {key}": value for key, value in effective.node_labels(config).items()}
    found |= {f"taint {key}": value for key, value in effective.node_taints(config).items()}
    is_control_plane = config.machine_type.is_control_plane
    kubelet = make_kubelet_config(config, "http://127.0.0.1:1" if is_control_plane else "")
    found |= {f"{KUBELET} {word}": True for word in make_arguments(kubelet, "node", ["10.5.0.2"])}
    settings = to_plain(make_configuration(kubelet, is_container=False, is_control_plane=is_control_plane))
    found |= {f"{KUBELET} {name}": value for name, value in settings.items()}
    if is_control_plane:
        found |= dict(read_arguments(pods.make_api_server(make_api_server(config), {}, {})))
        found |= dict(read_arguments(pods.make_controller_manager(make_controller_manager(config), {})))
        found |= dict(read_arguments(pods.make_scheduler(make_scheduler(config), {})))
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
    assert effective.node_labels(config) == {CONTROL_PLANE_LABEL: "", "a": "b"}
    assert effective.node_taints(config) == {CONTROL_PLANE_LABEL: "NoSchedule", "c": "NoExecute"}
    for setting in ("allowSchedulingOnControlPlanes: true", "allowSchedulingOnMasters: true"):
        assert effective.node_taints(load(f"{text}cluster: {{{setting}}}\n")) == {"c": "NoExecute"}
    both = "allowSchedulingOnControlPlanes: false, allowSchedulingOnMasters: true"
    assert CONTROL_PLANE_LABEL in effective.node_taints(load(f"{text}cluster: {{{both}}}\n"))


def test_the_document_of_a_node_says_all_of_it() -> None:
    config = load(
        "version: v1alpha1\nmachine: {type: controlplane}\ncluster: {}\n"
        "---\napiVersion: v1alpha1\nkind: KubeNodeConfig\nlabels: {a: b}\n"
    )
    assert effective.node_labels(config) == {"a": "b"}
    assert effective.node_taints(config) == {}
