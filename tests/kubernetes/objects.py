"""Objects of the Kubernetes API for tests, as dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any

IMAGE = "docker.io/library/busybox:1.37.0"
SERVE_NAME = "hostname > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
"""A web server that answers with its pod's name."""
READY_PROBE = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
"""Calls that web server."""
SLEEP = "trap exit TERM; sleep infinity & wait"
EVERYWHERE = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
"""Tolerations of pods that go to control plane nodes, too; not to nodes that are cordoned."""


def make_head(kind: str, name: str, *, version: str = "v1", **metadata: object) -> dict[str, Any]:
    """What every object begins with."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def make_container(command: str, **fields: object) -> dict[str, Any]:
    """A container that runs a command of the shell, and ends soon on SIGTERM."""
    return {"name": "main", "image": IMAGE, "command": ["sh", "-c", command], **fields}


def make_pod_spec(container: Mapping[str, Any], **fields: object) -> dict[str, Any]:
    """A pod of one container."""
    return {"containers": [container], "terminationGracePeriodSeconds": 1, **fields}


def make_pod(name: str, command: str, *, node: str = "", **container: object) -> dict[str, Any]:
    """A pod that is not restarted, on a node of the scheduler's choice or ``node``."""
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": EVERYWHERE} if node else {}
    spec = make_pod_spec(make_container(command, **container), restartPolicy="Never", **chosen)
    return {**make_head("Pod", name, labels={"app": name}), "spec": spec}


def make_deployment(
    name: str, replicas: int, container: Mapping[str, Any], **fields: object
) -> dict[str, Any]:
    """A deployment whose pods may run on every node; ``fields`` are the pods'."""
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": make_pod_spec(container, tolerations=EVERYWHERE, **fields),
        },
    }
    return {**make_head("Deployment", name, version="apps/v1"), "spec": spec}


def make_service(name: str, ports: Sequence[Mapping[str, Any]], **fields: object) -> dict[str, Any]:
    """A service for the pods of the same name."""
    return {**make_head("Service", name), "spec": {"selector": {"app": name}, "ports": ports, **fields}}
