"""Parts of Kubernetes objects that several manifests have."""

from typing import Any

from talos.api.definitions.k8s_pb2 import Resources

type Manifest = dict[str, Any]

SYSTEM = "kube-system"
RBAC, RBAC_GROUP = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
TOLERATE_ALL = [{"operator": "Exists", "effect": effect} for effect in ("NoSchedule", "NoExecute")]


def make_head(version: str, kind: str, name: str, namespace: str = "") -> Manifest:
    """What every object begins with."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def make_field(name: str, path: str) -> dict[str, Any]:
    """An environment variable with a field of the pod's own."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def make_resources(found: Resources) -> Manifest:
    """Requests and limits of a container, those that are given."""
    parts = {"requests": dict(found.requests), "limits": dict(found.limits)}
    return {"resources": {name: part for name, part in parts.items() if part}}


def bind(name: str, role: str, group: str) -> Manifest:
    """A role for a group of users."""
    return {
        **make_head(RBAC, "ClusterRoleBinding", name),
        "subjects": [{"kind": "Group", "name": group, "apiGroup": RBAC_GROUP}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": RBAC_GROUP},
    }


def bind_account(name: str, role: str) -> Manifest:
    """A role for a service account of the system's namespace that has the same name as the binding."""
    return {
        **make_head(RBAC, "ClusterRoleBinding", name),
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": RBAC_GROUP},
    }


def mark_bootstrapping(found: Manifest) -> Manifest:
    """A role or a binding as one that the cluster begins with; the API server completes such a binding."""
    metadata = found["metadata"] | {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
    if found["kind"] == "ClusterRoleBinding":
        metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {**found, "metadata": metadata}


def make_daemon_set(name: str, pod: Manifest, checksum: str) -> Manifest:
    """A pod on every node; a change of ``checksum`` replaces the pods."""
    labels = {"k8s-app": name, "tier": "node"}
    annotations = {"annotations": {"talos.dev/config-checksum": checksum}} if checksum else {}
    head = make_head("apps/v1", "DaemonSet", name, SYSTEM)
    head["metadata"]["labels"] = labels  # the client's check of the cluster's health selects by them
    return {
        **head,
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, **annotations}, "spec": pod},
        },
    }
