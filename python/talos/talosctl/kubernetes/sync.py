"""The cluster's objects are brought to what the nodes' manifests have, with a diff of each change."""

import asyncio
import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import yaml

from talos.client.wait import POLL_INTERVAL, wait_until
from talos.kubernetes.apply import ObjectPlace, apply, delete, find_place, order
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.inventory import NAME, OWNER, ObjectId, identify, read_inventory, write_inventory
from talos.system.errors import UserError

POLICIES = ("MustMatch", "AdoptIfNoInventory", "AdoptAll")
ROLLED_OUT = ("Deployment", "DaemonSet", "StatefulSet")
KIND_TIMEOUT = 30.0
"""Seconds after which a kind whose definition was applied has to be served."""
CHANGING = ("generation", "resourceVersion", "managedFields", "uid", "creationTimestamp")
"""Metadata that is no part of what was applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """How far a sync may go. ``timeout`` is in seconds."""

    dry_run: bool
    policy: str
    prune: bool
    recreate: bool
    """Objects with changes that the API server refuses for existing ones are made anew."""
    timeout: float
    report: Callable[[str], None]


@dataclass(slots=True)
class _Result:
    applied: list[ObjectId] = field(default_factory=list[ObjectId])
    changed: list[ObjectPlace] = field(default_factory=list[ObjectPlace])
    failed: list[str] = field(default_factory=list[str])


async def sync_manifests(
    client: KubernetesClient, manifests: Sequence[Mapping[str, Any]], options: SyncOptions
) -> None:
    """Apply all objects, delete what is recorded and no manifest has any more, wait for what has changed.

    UserError names every object that could not be applied; then nothing is deleted. KubernetesError when the
    API can't be reached.
    """
    recorded, result = await read_inventory(client), _Result()
    for manifest in order(manifests):
        subject = identify(manifest).subject
        try:
            await _sync(client, manifest, options, result)
        except KubernetesError as error:
            if not error.status:
                raise
            if options.dry_run and error.status == HTTPStatus.NOT_FOUND:
                # Its namespace or kind comes with another manifest.
                _report_change(options, "created", subject, manifest, {}, _clean(manifest))
                continue
            result.failed.append(f"{subject}: {error}")
            options.report(f" > failed {subject}: {error}")
    if not options.dry_run:
        await write_inventory(client, added=[one for one in result.applied if one not in recorded])
    if result.failed:
        raise UserError(f"manifests are not applied: {'; '.join(result.failed)}")
    if options.prune:
        await _prune(client, recorded - set(result.applied), options)
    if not options.dry_run:
        options.report("waiting for kubernetes objects to be fully reconciled")
        await _wait(client, result.changed, options.timeout)
        options.report("done")


async def _sync(
    client: KubernetesClient, manifest: Mapping[str, Any], options: SyncOptions, result: _Result
) -> None:
    place = await _find_place(client, manifest, KIND_TIMEOUT if not options.dry_run else 0.0)
    live = await client.get_or_none(place.path)
    if live is not None:
        check_policy(live, options.policy)
    new, is_anew = await _preview(client, place, manifest, live, options)
    result.applied.append(place.id)
    before, after = _clean(live or {}), _clean(new)
    if live is not None and not is_anew and before == after:
        options.report(f" > skipped {place.id.subject}: no changes")
        return
    if not options.dry_run:
        if is_anew:
            await delete(client, place.path)
            await _wait_until_gone(client, place, options.timeout)
        await apply(client, place, manifest)
        result.changed.append(place)
    action = "configured" if live is not None else "created"
    _report_change(options, action, place.id.subject, manifest, before, after)


async def _preview(
    client: KubernetesClient,
    place: ObjectPlace,
    manifest: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    options: SyncOptions,
) -> tuple[Mapping[str, Any], bool]:
    """What the object would be, and whether it has to be made anew for it."""
    try:
        return await apply(client, place, manifest, dry_run=True), False
    except KubernetesError as error:
        is_immutable = error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "immutable" in str(error)
        if live is None or not is_immutable:
            raise
        if not options.recreate:
            text = f"{error}; give --manifests-force to have it deleted and made anew"
            raise KubernetesError(error.status, text) from None
        return manifest, True


async def _find_place(client: KubernetesClient, manifest: Mapping[str, Any], seconds: float) -> ObjectPlace:
    end = time.monotonic() + seconds
    while True:
        try:
            return await find_place(client, manifest)
        except KubernetesError as error:
            if error.status != HTTPStatus.NOT_FOUND or time.monotonic() > end:
                raise
        await asyncio.sleep(POLL_INTERVAL)


async def _prune(client: KubernetesClient, gone: set[ObjectId], options: SyncOptions) -> None:
    """Delete what is recorded, and forget it. The API has the version of a kind, the record has none."""
    for one in sorted(gone):
        place = await _find_recorded(client, one)
        live = await client.get_or_none(place.path) if place else None
        if place is not None and live is not None:
            check_policy(live, options.policy)
            if not options.dry_run:
                await delete(client, place.path)
            _report_change(options, "deleted", one.subject, live, _clean(live), {})
        if not options.dry_run:
            await write_inventory(client, removed=[one])


async def _find_recorded(client: KubernetesClient, one: ObjectId) -> ObjectPlace | None:
    version = "v1"
    if one.group:
        group = await client.get_or_none(f"/apis/{one.group}")
        if group is None:
            return None
        version = group["preferredVersion"]["groupVersion"]
    metadata = {"name": one.name, **({"namespace": one.namespace} if one.namespace else {})}
    try:
        return await find_place(client, {"apiVersion": version, "kind": one.kind, "metadata": metadata})
    except KubernetesError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def check_policy(live: Mapping[str, Any], policy: str) -> None:
    """KubernetesError when an object belongs to another manager, as far as the policy cares."""
    annotations: Mapping[str, str] = live["metadata"].get("annotations") or {}
    owner = annotations.get(OWNER)
    if owner == NAME or policy == "AdoptAll" or (owner is None and policy == "AdoptIfNoInventory"):
        return
    status = "Empty" if owner is None else "NoMatch"
    text = f"inventory policy prevented actuation (status: {status}, policy: {policy})"
    raise KubernetesError(HTTPStatus.FORBIDDEN, text)


def _clean(found: Mapping[str, Any]) -> dict[str, Any]:
    """What was applied of an object, its secrets not shown."""
    metadata = {key: value for key, value in found.get("metadata", {}).items() if key not in CHANGING}
    cleaned = {**found, "metadata": metadata} if found else {}
    cleaned.pop("status", None)
    return cleaned


def _report_change(
    options: SyncOptions,
    action: str,
    subject: str,
    manifest: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    options.report(f" < {action} {subject}")
    name = subject.partition("/")[2]
    place = f"{manifest['apiVersion']}.{manifest['kind']}/{name}"
    options.report(make_diff(place, before, after))


def make_diff(place: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """A unified diff; values of secrets are compared and not shown."""
    old, new = _mask(before, before, after), _mask(after, before, after)
    lines = [_format(one).splitlines(keepends=True) for one in (old, new)]
    return "".join(difflib.unified_diff(lines[0], lines[1], f"a/{place}", f"b/{place}"))


def _mask(found: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, Any]:
    if (found.get("kind") or "") != "Secret":
        return found
    masked = dict(found)
    for part in ("data", "stringData"):
        values: Mapping[str, Any] = found.get(part) or {}
        other: Mapping[str, Any] = (before if found is after else after).get(part) or {}
        mark = "*** (after)" if found is after else "*** (before)"
        if values:
            masked[part] = {key: "***" if other.get(key) == value else mark for key, value in values.items()}
    return masked


def _format(found: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(found)) if found else ""


async def _wait(client: KubernetesClient, changed: Sequence[ObjectPlace], seconds: float) -> None:
    """Wait until what has changed is rolled out; UserError names what is not."""

    async def check() -> str:
        waiting: list[str] = []
        for place in changed:
            if place.id.kind in ROLLED_OUT:
                found = await client.get_or_none(place.path)
                if found is not None and (reason := find_unfinished(found)):
                    waiting.append(f"{place.id.subject}: {reason}")
        return "; ".join(waiting)

    await wait_until(check, what="objects that are not reconciled", seconds=seconds)


async def _wait_until_gone(client: KubernetesClient, place: ObjectPlace, seconds: float) -> None:
    async def check() -> str:
        return "it is not deleted" if await client.get_or_none(place.path) is not None else ""

    await wait_until(check, what=place.id.subject, seconds=seconds)


def find_unfinished(found: Mapping[str, Any]) -> str:
    """Why the pods of a workload are not those of its last change; empty when they are."""
    spec: Mapping[str, Any] = found["spec"]
    status: Mapping[str, int] = found.get("status") or {}
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return "its change is not seen yet"
    if found["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    else:
        wanted = spec.get("replicas", 1)
        updated, ready = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted or ready < wanted:
        return f"{updated} of {wanted} pods are updated, {ready} are available"
    return ""
