"""The upgrade controller, a pod, brings all machines to its channel's release, within its window alone."""

import datetime
from functools import partial

import yaml
from driver.clusters import diagnosed_on_failure
from driver.kubernetes import FORM_TIMEOUT, MACHINES, Kubernetes, start_kubernetes
from driver.kubernetes_api import KubernetesApi, Object
from driver.process import run as run_program
from driver.scenarios import INSTALLED_VERSION, patch
from driver.world import World

ASSETS = (
    "kernel", "initramfs", "cmdline", "release-tool", "images-all", "discovery", "base-kubernetes",
    "upgrade-controller", "upgrade-controller-image",
)  # fmt: skip
NODES = MACHINES
OLD, NEXT, NEW = INSTALLED_VERSION, "v1.15.3", "v1.15.3 in B"
CHANNEL = "ghcr.io/siderolabs/installer:stable"
NAMESPACE = "talos-upgrade"
ACCESS = f"""\
apiVersion: v1alpha1
kind: KubeTalosAPIAccessConfig
allowedRoles: [os:upgrade]
allowedKubernetesNamespaces: [{NAMESPACE}]
"""
ENDPOINT = "talos.default"
"""What the talosconfig of an account calls."""
CLOSED = "the maintenance window is closed"
CHECK_INTERVAL = 10.0
"""Seconds between two calls of the API server: an emulated processor has work with each."""


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    kubernetes = start_kubernetes(world)
    machines = kubernetes.machines
    assert kubernetes.read_versions() == [OLD] * len(machines)
    api = kubernetes.open_api()
    kubernetes.members.releases.make(NEXT, tag="stable")

    world.section("the window is closed")
    deploy(kubernetes, api)
    policy = partial(make_policy, kubernetes)
    apply(kubernetes, api, policy(hours_from_now=6))
    status = wait_for_status(kubernetes, api, "waiting")
    assert status["reason"].startswith(CLOSED), status
    assert status["release"]["version"] == NEXT, status
    assert kubernetes.read_versions() == [OLD] * len(machines)

    world.section("the window opens")
    with kubernetes.observed():
        apply(kubernetes, api, policy(hours_from_now=-1))
        status = wait_for_status(kubernetes, api, "current", seconds=len(machines) * FORM_TIMEOUT)
        assert {node["version"] for node in status["nodes"]} == {NEXT}, status
    assert kubernetes.read_versions() == [NEW] * len(machines)


def deploy(kubernetes: Kubernetes, api: KubernetesApi) -> None:
    """Allow the controller's account at the nodes, and apply what its own command prints."""
    world = kubernetes.world
    image = kubernetes.members.releases.offer_archive(world.assets.path("upgrade-controller-image"))
    patch(kubernetes.machines[0], ACCESS)
    program = world.assets.path("upgrade-controller") / "bin/upgrade-controller"
    text = run_program([str(program), "manifests", "--image", image], seconds=60).stdout
    for document in yaml.safe_load_all(text):
        if document["kind"] == "Deployment":
            # The cluster has no CoreDNS, which would have the name of the service.
            alias = {"ip": kubernetes.machines[0].node.address, "hostnames": [ENDPOINT]}
            document["spec"]["template"]["spec"]["hostAliases"] = [alias]
        apply(kubernetes, api, document)


def apply(kubernetes: Kubernetes, api: KubernetesApi, document: Object) -> None:
    """Apply an object, whose kind the API server may not serve yet."""
    what = f"{document['kind']} {document['metadata']['name']} is applied"
    kubernetes.machines[0].wait_until(what, lambda: api.apply(document), FORM_TIMEOUT, pause=CHECK_INTERVAL)


def make_policy(kubernetes: Kubernetes, *, hours_from_now: int) -> Object:
    """The policy, with a window that opens then, for four hours."""
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours_from_now)
    releases = kubernetes.members.releases
    window = {"from": f"{now:%H:%M}", "to": f"{now + datetime.timedelta(hours=4):%H:%M}"}
    return {
        "apiVersion": "talos.dev/v1alpha1",
        "kind": "UpgradePolicy",
        "metadata": {"name": "stable", "namespace": NAMESPACE},
        "spec": {
            "channel": {"image": CHANNEL, "keys": [releases.public_key], "endpoint": releases.registry},
            "windows": [window],
            "timeout": "2h",
        },
    }


def wait_for_status(
    kubernetes: Kubernetes, api: KubernetesApi, state: str, seconds: float = FORM_TIMEOUT
) -> Object:
    """Wait until the policy's status has a state for what the policy is now."""
    path = f"/apis/talos.dev/v1alpha1/namespaces/{NAMESPACE}/upgradepolicies/stable"

    def find() -> Object:
        policy = api.get(path)
        status = policy.get("status", {})
        assert status.get("observedGeneration") == policy["metadata"]["generation"], status
        assert status["state"] == state, status
        return status

    return kubernetes.machines[0].wait_until(f"the policy is {state}", find, seconds, pause=CHECK_INTERVAL)
