"""A twin of the Kubernetes API for tests of what is built on its client: objects by path, in memory."""

import json
from collections.abc import Callable, Mapping
from typing import Any, override

from talos.kubernetes.client import JSON, MAX_REPLY, KubernetesClient, KubernetesError, Reply

RESOURCES = {
    "/api/v1": [("namespaces", "Namespace", False), ("configmaps", "ConfigMap", True)],
    "/apis/rbac.authorization.k8s.io/v1": [("clusterroles", "ClusterRole", False)],
}


class Twin(KubernetesClient):
    """Keeps what is applied. ``refuse`` may raise KubernetesError for a call."""

    def __init__(self, refuse: Callable[[str, str], None] = lambda method, path: None) -> None:
        self._resources = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuse = refuse

    @override
    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        max_reply: int = MAX_REPLY,
    ) -> Reply:
        del max_reply
        path, _, query = path.partition("?")
        self.calls.append((method, path))
        self.refuse(method, path)
        if path in RESOURCES:
            rows = RESOURCES[path]
            return {"resources": [{"name": a, "kind": b, "namespaced": c} for a, b, c in rows]}
        content: dict[str, Any] = json.loads(json.dumps(body or {}))
        match method:
            case "POST":
                path = f"{path}/{content['metadata']['name']}"
                self.objects[path] = content
            case "PATCH" if "fieldManager" in query:
                changed = {**self.objects.get(path, {}), **content}
                if "dryRun" in query:
                    return changed
                self.objects[path] = changed
            case "PATCH":
                data = {**self.objects[path].get("data", {}), **content["data"]}
                self.objects[path]["data"] = {key: value for key, value in data.items() if value is not None}
            case "DELETE":
                self.objects.pop(path, None)
                return {}
            case _:
                pass
        if path not in self.objects:
            raise KubernetesError(404, f"{path} not found")
        return self.objects[path]


def make_map(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
