"""What PID 1 runs as the kubelet comes from the config: daemons give a name and addresses, no more."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.k8s_pb2 import NodeIPSpec, NodenameSpec, StaticPodServerStatusSpec
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.read.loader import load
from talos.config.static_pods import MANIFESTS
from talos.machined.controllers.config.machine_type import MachineTypeController
from talos.machined.controllers.k8s.kubelet import (
    CONTAINERD,
    QUOTA_GATE,
    KubeletConfigController,
    KubeletSpecController,
    make_arguments,
    make_configuration,
    make_kubelet_config,
)
from talos.machined.node.resources import describe_machine
from talos.machined.services.kubelet import MOUNTS
from talos.process.daemons import KUBELET_IMAGES
from talos.process.grants import load_grants
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_plain
from talos.resource.remote.service import ResourceAccess, Verb
from talos.system.files import KernelFiles

URL = "http://127.0.0.1:1234"
FOREIGN = "http://192.0.2.1/pods"


async def make_spec(config: str, url: str) -> Any:
    """The KubeletSpec of a node whose kubed has the static pods at this URL."""
    state = MemoryState()
    platform = PlatformConfigSpec()
    platform.metadata.platform = "metal"
    await describe_machine(state, files=KernelFiles(), node_id="a", cmdline="", platform=platform)
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config.encode()))
    await put(state, *ids.NODENAME, NodenameSpec(nodename="one"))
    await put(state, *ids.NODE_IP, NodeIPSpec(addresses=[NetIP(ip=ip_address("10.5.0.2").packed)]))
    if url:
        await put(state, *ids.STATIC_POD_SERVER_STATUS, StaticPodServerStatusSpec(url=url))
    controllers = [MachineTypeController(), KubeletConfigController(), KubeletSpecController()]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, controllers)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    found = await state.list(kinds.KUBELET_SPEC)
    return found[0].spec if found else None


@pytest.mark.parametrize("url", ["", URL, FOREIGN])
async def test_a_workers_kubelet_fetches_no_static_pods(worker: str, url: str) -> None:
    spec = await make_spec(worker, url)
    config = to_plain(spec.config)
    assert "staticPodURL" not in config
    assert config["staticPodPath"] == MANIFESTS
    assert spec.expected_nodename == "one"
    assert {"--hostname-override=one", "--node-ip=10.5.0.2"} <= set(spec.args)
    assert not [one for one in spec.args if "manifest" in one]


async def test_a_control_plane_nodes_kubelet_waits_for_the_server_of_its_pods(control_plane: str) -> None:
    assert await make_spec(control_plane, "") is None
    spec = await make_spec(control_plane, URL)
    assert to_plain(spec.config)["staticPodURL"] == URL


RULES = """---
apiVersion: v1alpha1
kind: ImageVerificationConfig
rules:
  - {image: registry.example/*, deny: true}
"""
WORKER = """version: v1alpha1
machine:
  type: worker
  kubelet: {extraConfig: {maxPods: 5}}
cluster: {controlPlane: {endpoint: "https://10.0.0.1:6443"}}
"""
OWN = '{imageServiceEndpoint: "unix:///own.sock"}, extraArgs: {image-service-endpoint: "unix:///own.sock"}'
"""Another image service, as a setting and as an argument."""


@pytest.mark.parametrize(
    ("config", "endpoint", "is_argument"),
    [
        (WORKER, None, False),
        (WORKER + RULES, f"unix://{KUBELET_IMAGES}", False),
        (WORKER.replace("{maxPods: 5}", OWN), "unix:///own.sock", True),
        (WORKER.replace("{maxPods: 5}", OWN) + RULES, f"unix://{KUBELET_IMAGES}", False),
    ],
)
async def test_a_kubelet_pulls_by_the_rules_of_images(
    config: str, endpoint: str | None, *, is_argument: bool
) -> None:
    spec = await make_spec(config, "")
    assert to_plain(spec.config).get("imageServiceEndpoint") == endpoint
    assert any(one.startswith("--image-service-endpoint") for one in spec.args) == is_argument


def test_the_kubelet_sees_the_socket() -> None:
    folder = str(Path(KUBELET_IMAGES).parent)
    assert [mount.source for mount in MOUNTS if mount.target == folder] == [folder]


@pytest.mark.parametrize("kind", [kinds.KUBELET_SPEC, kinds.KUBELET_CONFIG, kinds.MACHINE_CONFIG])
@pytest.mark.parametrize("verb", [verb for verb in Verb if verb.is_write])
def test_no_daemon_writes_what_the_kubelet_is_started_with(kind: Any, verb: Verb) -> None:
    for grants in load_grants().values():
        for owner in {owner for owners in grants.owners.values() for owner in owners} | {
            "k8s.KubeletSpecController",
            "k8s.KubeletConfigController",
        }:
            access = ResourceAccess(
                verb=verb, type=kind.type, namespace=kind.namespace, id="kubelet", owner=owner
            )
            assert not grants.allows(access), (grants.daemon, owner)


def read_settings(config: str, extra: str = "{}", **machine: str) -> dict[str, Any]:
    """The kubelet's configuration of a worker on a machine."""
    text = config.replace("{maxPods: 5}", extra)
    for section, value in machine.items():
        text = text.replace("machine:\n", f"machine:\n  {section}: {value}\n", 1)
    spec = make_kubelet_config(load(text), "")
    return to_plain(make_configuration(spec, is_container=False, is_control_plane=False))


def test_a_kubelet_that_is_not_registered_needs_no_api_server() -> None:
    text = WORKER.replace("kubelet: {", "kubelet: {skipNodeRegistration: true, ")
    settings = read_settings(text)
    assert settings["authentication"]["webhook"] == {"enabled": False}
    assert settings["authentication"]["anonymous"] == {"enabled": False}
    assert settings["authorization"] == {"mode": "AlwaysAllow"}
    assert not [
        one for one in make_arguments(make_kubelet_config(load(text), ""), "a", []) if "kubeconfig" in one
    ]
    settings = read_settings(WORKER)
    assert settings["authentication"]["webhook"] == {"enabled": True}
    assert settings["authorization"] == {"mode": "Webhook"}


def test_what_is_reserved_is_the_users_as_a_whole() -> None:
    assert read_settings(WORKER)["systemReserved"]["memory"] == "384Mi"
    assert read_settings(WORKER, "{systemReserved: {}}")["systemReserved"]["memory"] == "384Mi"
    assert read_settings(WORKER, "{systemReserved: {memory: 1Gi}}")["systemReserved"] == {"memory": "1Gi"}


def test_the_runtime_is_the_nodes() -> None:
    settings = read_settings(WORKER, '{containerRuntimeEndpoint: "unix:///own.sock"}')
    assert settings["containerRuntimeEndpoint"] == CONTAINERD


def test_the_kubelet_measures_by_the_quota_of_the_disk() -> None:
    assert "featureGates" not in read_settings(WORKER)
    with_quota = "{diskQuotaSupport: true}"
    assert read_settings(WORKER, features=with_quota)["featureGates"] == {QUOTA_GATE: True}
    own = f"{{featureGates: {{{QUOTA_GATE}: false, Other: true}}}}"
    found = read_settings(WORKER, own, features=with_quota)["featureGates"]
    assert found == {QUOTA_GATE: False, "Other": True}
