"""Pods' images are held to the rules of the config: what is not signed does not run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.harness.cluster import eventually
from tests.harness.elf import make_program
from tests.harness.kubernetes import Kubernetes
from tests.harness.registry import Store, running_registry
from tests.kubernetes.objects import make_pod
from tests.unit.machined.containerd.verify.cosign import Image, WithReferrers, make_bundle

from talos.pki.keys import KeyType, make_key, public_key_to_pem
from talos.process.daemons import KUBELET_IMAGES

pytestmark = pytest.mark.soak
KEY = make_key(KeyType.P256)
SIGNED, UNSIGNED = "signed.example/team/app:1", "signed.example/team/app:2"
SKIPPED = "skipped.example/team/app:2"
RULES = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig"}
SETTINGS = "etc/kubernetes/kubelet.yaml"


def patch(kubernetes: Kubernetes, document: dict[str, object]) -> None:
    """Change the worker's config."""
    node = str(kubernetes.cluster.nodes[1].address)
    kubernetes.cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", json.dumps(document))


def wait_for_kubelet(kubernetes: Kubernetes, *, by_rules: bool) -> None:
    """Until the worker's kubelet has been started anew, pulls by the rules or no more, and is healthy."""
    worker = kubernetes.cluster.nodes[1]

    def check() -> None:
        settings = (kubernetes.cluster.root(worker) / SETTINGS).read_text(encoding="utf-8")
        assert (KUBELET_IMAGES in settings) == by_rules
        service = kubernetes.cluster.services(str(worker.address))["kubelet"]
        assert (service["STATE"], service["HEALTH"]) == ("Running", "OK")
        kubernetes.check_nodes()

    eventually("the kubelet runs with its new settings", check, pause=0.5)


@pytest.fixture(scope="module")
def image(kubernetes: Kubernetes) -> Iterator[Image]:
    """A signed image in a registry, with another one at the tag ``2``, and rules for two names of both."""
    store, gateway = Store(), str(kubernetes.cluster.info.gateway)
    signed = store.add_image("team/app:1", {"app": make_program(b"signed\n")}, command=["/app"])
    store.add_image("team/app:2", {"app": make_program(b"unsigned\n")}, command=["/app"])
    image = Image(store, signed["digest"])
    image.add_referrer(make_bundle(KEY, image.digest))
    with running_registry(store, WithReferrers, host=gateway) as registry:
        endpoint = {"endpoints": [f"http://{gateway}:{registry.port}"], "skipFallback": True}
        hosts = [name.partition("/")[0] for name in (SIGNED, SKIPPED)]
        patch(kubernetes, {"machine": {"registries": {"mirrors": dict.fromkeys(hosts, endpoint)}}})
        certificate = public_key_to_pem(KEY).decode()
        rules = [
            {"image": f"{hosts[0]}/*", "publicKey": {"certificate": certificate}},
            {"image": f"{hosts[1]}/*", "skip": True},
        ]
        patch(kubernetes, {**RULES, "rules": rules})
        wait_for_kubelet(kubernetes, by_rules=True)
        yield image
        patch(kubernetes, {**RULES, "$patch": "delete"})
        wait_for_kubelet(kubernetes, by_rules=False)


def run_pod(kubernetes: Kubernetes, name: str, image: str, policy: str = "IfNotPresent") -> None:
    """A pod on the worker of the only program of an image."""
    worker = kubernetes.cluster.nodes[1].name
    pod = make_pod(name, "", node=worker, image=image, imagePullPolicy=policy)
    del pod["spec"]["containers"][0]["command"]
    kubernetes.apply(pod)


def get_status(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    (pod,) = kubernetes.get("pod", name)
    return pod["status"]["containerStatuses"][0]


def test_a_signed_image_runs_and_another_does_not(kubernetes: Kubernetes, image: Image) -> None:
    run_pod(kubernetes, "signed", SIGNED)
    run_pod(kubernetes, "unsigned", UNSIGNED)
    run_pod(kubernetes, "skipped", SKIPPED)
    for name in ("signed", "skipped"):
        kubernetes.wait_for(f"pod/{name}", "condition=Ready")
    status = get_status(kubernetes, "signed")
    assert (status["image"], status["imageID"]) == (SIGNED, f"signed.example/team/app@{image.digest}")

    def check_refused() -> None:
        argv = ("events", "--field-selector", "involvedObject.name=unsigned,reason=Failed")
        messages = [event["message"] for event in kubernetes.get(*argv)]
        text = f'failed to verify image "{UNSIGNED}" with talos: image verification failed: image '
        assert any(text in message and "PermissionDenied" in message for message in messages), messages
        waiting = get_status(kubernetes, "unsigned")["state"]["waiting"]
        assert waiting["reason"] in {"ErrImagePull", "ImagePullBackOff"}

    eventually("the pod is refused by an event", check_refused, pause=0.5)
    # The image that is there has the name by which a pod finds it, and is what one gets that always pulls.
    for policy in ("Never", "Always"):
        name = f"signed-{policy.lower()}"
        run_pod(kubernetes, name, SIGNED, policy)
        kubernetes.wait_for(f"pod/{name}", "condition=Ready")
        assert get_status(kubernetes, name)["imageID"] == status["imageID"]
    pods = ("signed", "unsigned", "skipped", "signed-never", "signed-always")
    kubernetes.delete(*(f"pod/{name}" for name in pods), wait=True)
