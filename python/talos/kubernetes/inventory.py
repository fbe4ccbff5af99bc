"""The record of the objects that were applied for a cluster, which is kept in the cluster.

A ConfigMap in the form of cli-utils, which upstream's tools read and write: a key for each object. Who
removes an object from the cluster doesn't get it back: the record has it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from talos.kubernetes.client import MERGE, KubernetesClient

NAMESPACE, NAME = "kube-system", "talos-bootstrap-manifests-inventory"
LABEL = "cli-utils.sigs.k8s.io/inventory-id"
OWNER = "config.k8s.io/owning-inventory"
"""The annotation by which an object belongs to a record."""
_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class ObjectId:
    """An object of any version of its kind."""

    namespace: str
    name: str
    group: str
    kind: str

    @property
    def key(self) -> str:
        """As the record has it. Only names of roles have colons, which keys may not."""
        return "_".join((self.namespace, self.name.replace(":", "__"), self.group, self.kind))

    @property
    def subject(self) -> str:
        """As the user sees it."""
        return "/".join(filter(None, (self.kind, self.namespace, self.name)))


def identify(manifest: Mapping[str, Any]) -> ObjectId:
    """What an object is; KeyError without kind or name."""
    metadata, version = manifest["metadata"], str(manifest["apiVersion"])
    return ObjectId(
        namespace=metadata.get("namespace") or "",
        name=str(metadata["name"]),
        group=version.rpartition("/")[0],
        kind=str(manifest["kind"]),
    )


def parse_key(key: str) -> ObjectId | None:
    """The object of a key of the record; none when it is none of ours."""
    namespace, _, rest = key.partition("_")
    rest, _, kind = rest.rpartition("_")
    name, _, group = rest.rpartition("_")
    if not name or not kind:
        return None
    if group == _RBAC:
        name = name.replace("__", ":")
    return ObjectId(namespace=namespace, name=name, group=group, kind=kind)


def find_recorded(manifest: Mapping[str, Any], recorded: Collection[ObjectId]) -> ObjectId | None:
    """The entry of an object. Its namespace may be left out, or be given though the kind has none."""
    own = identify(manifest)
    return next(
        (
            found
            for namespace in ((own.namespace, "") if own.namespace else ("", "default"))
            if (found := replace(own, namespace=namespace)) in recorded
        ),
        None,
    )


async def read_inventory(client: KubernetesClient) -> set[ObjectId]:
    """What is recorded; KubernetesError."""
    found = await client.get_or_none(f"{_MAPS}/{NAME}") or {}
    keys: dict[str, str] = found.get("data") or {}
    return {parsed for key in keys if (parsed := parse_key(key))}


async def write_inventory(
    client: KubernetesClient, *, added: Iterable[ObjectId] = (), removed: Iterable[ObjectId] = ()
) -> None:
    """Change the record; KubernetesError. Objects that others record at the same time stay."""
    data = {one.key: "" for one in added} | dict.fromkeys((one.key for one in removed), None)
    if not data:
        return
    if await client.get_or_none(f"{_MAPS}/{NAME}") is None:
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": {LABEL: NAME}}
        await client.call("POST", _MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await client.call("PATCH", f"{_MAPS}/{NAME}", {"data": data}, kind=MERGE)
