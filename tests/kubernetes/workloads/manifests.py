"""The manifests of projects, as they publish them, and what every user of theirs sets."""

from pathlib import Path
from typing import Any

import yaml
from tests.harness.cluster import REPOSITORY
from tests.harness.kubernetes import Kubernetes, link_images
from tests.kubernetes.objects import make_head

PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}


def built_workloads() -> Path:
    """The OCI archives of programs of others, and their manifests."""
    path = REPOSITORY / "build/images-workloads"
    assert path.exists(), f"there are no images at {path}: make images-workloads"
    return path.resolve()


def link_workloads(folder: Path) -> Path:
    """A new folder with links to Kubernetes' images and to those of programs of others."""
    images = link_images(folder)
    for path in built_workloads().glob("*.tar"):
        (images / path.name).symlink_to(path)
    return images


def read_manifest(name: str) -> list[dict[str, Any]]:
    """The objects in a file of one of these projects."""
    text = (built_workloads() / f"{name}.yaml").read_text(encoding="utf-8")
    return [found for found in yaml.safe_load_all(text) if found]


def tag_of(image: str) -> str:
    """The version of an image that was built."""
    (path,) = built_workloads().glob(f"{image}-v*.tar")
    return path.name.removeprefix(f"{image}-").removesuffix(".tar")


def make_namespace(name: str) -> dict[str, Any]:
    """A namespace whose pods may be privileged."""
    return make_head("Namespace", name, labels=PRIVILEGED)


def make_claim(name: str, storage_class: str, **fields: object) -> dict[str, Any]:
    """A claim of 1 GiB."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **fields,
    }
    return {**make_head("PersistentVolumeClaim", name), "spec": spec}


def with_claim(pod: dict[str, Any], claim: str, node: str) -> dict[str, Any]:
    """A pod on a node, whose container has the volume of a claim at ``/data``."""
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return pod


def run_with_claim(kubernetes: Kubernetes, pod: dict[str, Any], claim: str, node: str) -> str:
    """What a pod writes that has the volume of a claim, and ends; it is removed."""
    name = pod["metadata"]["name"]
    kubernetes.apply(with_claim(pod, claim, node))
    kubernetes.wait_for(f"pod/{name}", "jsonpath={.status.phase}=Succeeded")
    output = kubernetes.kubectl("logs", name).stdout
    kubernetes.delete(f"pod/{name}", wait=True)
    return output
