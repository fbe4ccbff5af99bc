"""Objects that the API server merges into what is there: server-side apply, as upstream's tools do it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from talos.kubernetes.client import APPLY, KubernetesClient, KubernetesError, Reply
from talos.kubernetes.inventory import NAME, OWNER, ObjectId, identify

MANAGER = "talos"
"""The owner of the fields, for the API server."""
_FIRST = ("Namespace", "CustomResourceDefinition")


def order(manifests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Namespaces and definitions of kinds first: others need them."""
    return sorted(manifests, key=lambda manifest: manifest["kind"] not in _FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """Where the API has an object, and under what it is recorded."""

    path: str
    id: ObjectId


async def find_place(client: KubernetesClient, manifest: Mapping[str, Any]) -> ObjectPlace:
    """The place of an object, by the API's list of kinds; KubernetesError."""
    collection = await client.find_collection(manifest)
    parts = collection.split("/")
    namespace = parts[-2] if parts[-3] == "namespaces" else ""
    name = quote(str(manifest["metadata"]["name"]), safe="")
    return ObjectPlace(path=f"{collection}/{name}", id=replace(identify(manifest), namespace=namespace))


async def apply(
    client: KubernetesClient, place: ObjectPlace, manifest: Mapping[str, Any], *, dry_run: bool = False
) -> Reply:
    """Apply an object as ours, also fields that another manager has set; what is there then."""
    query = f"fieldManager={MANAGER}&force=true{'&dryRun=All' if dry_run else ''}"
    return await client.call("PATCH", f"{place.path}?{query}", mark(manifest), kind=APPLY)


def mark(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object with the annotation by which it belongs to our record."""
    metadata = manifest["metadata"]
    annotations: dict[str, str] = {**(metadata.get("annotations") or {}), OWNER: NAME}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


async def delete(client: KubernetesClient, path: str) -> None:
    """Delete an object, and in the background what belongs to it; KubernetesError."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    try:
        await client.call("DELETE", path, options)
    except KubernetesError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


async def create_missing(client: KubernetesClient, manifest: Mapping[str, Any]) -> ObjectId:
    """Apply an object unless there is one of its name, which stays as it is; KubernetesError."""
    place = await find_place(client, manifest)
    # Not by the attempt alone: a service whose address is taken, by itself, is refused as invalid.
    if await client.get_or_none(place.path) is None:
        await apply(client, place, manifest)
    return place.id
