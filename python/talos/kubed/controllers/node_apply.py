"""The node in Kubernetes gets the labels, annotations and taints of the config, and is cordoned as it ends.

What is set is noted in annotations of the node, as upstream has them, so that what leaves the config leaves
the node, and nothing that others have set.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.definitions import enums_pb2 as enums
from talos.kubed.admin import find_pause
from talos.kubed.node_access import INPUTS, NodeAccess
from talos.kubernetes.client import MERGE, KubernetesClient, KubernetesError
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log

OWNED_LABELS, OWNED_ANNOTATIONS = "talos.dev/owned-labels", "talos.dev/owned-annotations"
OWNED_TAINTS = "talos.dev/owned-taints"
CORDONED = "talos.dev/cordoned"
RETRY_INTERVAL = 2.0
"""Seconds between the first tries while the API server starts or refuses."""
ENDING = frozenset(
    {
        enums.MACHINE_STAGE_RESETTING,
        enums.MACHINE_STAGE_SHUTTING_DOWN,
        enums.MACHINE_STAGE_UPGRADING,
    }
)
"""Stages in which no pod is to come any more. As upstream, a mere reboot is over too soon."""

type Texts = Mapping[str, str]
type Patch = dict[str, Any]


class NodeCordonedSpecController(Reconciler):
    """MachineStatus, Nodename → NodeCordonedSpec while the machine goes down for longer."""

    name = "k8s.NodeCordonedSpecController"
    inputs = (Input(*ids.MACHINE_STATUS), Input(*ids.NODENAME))
    outputs = (Output(kinds.NODE_CORDONED_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        machine = await runtime.get_or_none(*ids.MACHINE_STATUS)
        nodename = await runtime.get_or_none(*ids.NODENAME)
        async with runtime.track_outputs():
            if machine is not None and nodename is not None and machine.spec.stage in ENDING:
                await runtime.put(kinds.NODE_CORDONED_SPEC, nodename.spec.nodename, Empty())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the config sets on the node; taints are effect and value by key, none where they can't be set."""

    labels: Texts
    annotations: Texts
    taints: Mapping[str, tuple[str, str]] | None
    cordoned: bool


class NodeApplyController(Controller):
    """NodeLabelSpec, NodeAnnotationSpec, NodeTaintSpec, NodeCordonedSpec → the node in Kubernetes."""

    name = "k8s.NodeApplyController"
    inputs = (
        *INPUTS,
        Input(kinds.NODE_STATUS),
        Input(kinds.NODE_LABEL_SPEC),
        Input(kinds.NODE_ANNOTATION_SPEC),
        Input(kinds.NODE_TAINT_SPEC),
        Input(kinds.NODE_CORDONED_SPEC),
    )

    def __init__(self, access: NodeAccess, log: Log) -> None:
        self._access = access
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Apply at every change, until it succeeds."""
        async for _ in runtime.events():
            began = trio.current_time()
            while not await self._reconcile(runtime):
                await runtime.wait_before_retry(find_pause(began, RETRY_INTERVAL))

    async def _reconcile(self, runtime: ControllerRuntime) -> bool:
        """Change what differs, if the API lets us; NodeStatus shows that the node is registered."""
        found = await self._access.find(runtime)
        if found is None or await runtime.get_or_none(kinds.NODE_STATUS, found.name) is None:
            return True
        wanted = Wanted(
            labels={one.spec.key: one.spec.value for one in await runtime.list(kinds.NODE_LABEL_SPEC)},
            annotations={
                one.spec.key: one.spec.value for one in await runtime.list(kinds.NODE_ANNOTATION_SPEC)
            },
            taints={
                one.spec.key: (one.spec.effect, one.spec.value)
                for one in await runtime.list(kinds.NODE_TAINT_SPEC)
            }
            if found.is_admin
            else None,
            cordoned=bool(await runtime.list(kinds.NODE_CORDONED_SPEC)),
        )
        try:
            await self._apply(found.connect(), f"/api/v1/nodes/{quote(found.name)}", wanted)
        except KubernetesError as error:
            self._log.once(f"the node is not changed yet: {error}", key="node", level="info")
            return False
        self._log.forget("node")
        return True

    async def _apply(self, client: KubernetesClient, path: str, wanted: Wanted) -> None:
        node = await client.get_or_none(path)
        if node is None:
            return
        labels, others = make_patches(node, wanted)
        for patch in (others, labels):
            if not patch:
                continue
            try:
                node = await client.call("PATCH", path, patch, kind=MERGE)
            except KubernetesError as error:
                if error.status != HTTPStatus.FORBIDDEN or patch is not labels:
                    raise
                # Each by itself: one label that a kubelet may not set holds no other back.
                await self._apply_labels(client, path, node, wanted)

    async def _apply_labels(
        self, client: KubernetesClient, path: str, node: Mapping[str, Any], wanted: Wanted
    ) -> None:
        for key, value in wanted.labels.items():
            one = Wanted(labels={key: value}, annotations={}, taints=None, cordoned=False)
            patch = make_labels_patch(node, one.labels, keep=True)
            if not patch:
                continue
            try:
                node = await client.call("PATCH", path, patch, kind=MERGE)
            except KubernetesError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                text = f"the label {key} is refused: {error}"
                self._log.once(text, key=f"label {key}", level="warning")


def make_patches(node: Mapping[str, Any], wanted: Wanted) -> tuple[Patch, Patch]:
    """Merge patches of the labels, and of all else; empty where nothing differs."""
    current = node["metadata"].get("annotations", {})
    owned = _parse_owned(current.get(OWNED_ANNOTATIONS))
    annotations = {**merge_owned(current, wanted.annotations, owned)}
    annotations |= _note(current, OWNED_ANNOTATIONS, find_owned(current, wanted.annotations, owned))
    spec: Patch = {}
    if wanted.taints is not None:
        owned_taints = _parse_owned(current.get(OWNED_TAINTS))
        taints = node["spec"].get("taints", [])
        after = merge_taints(taints, wanted.taints, owned_taints)
        if after != taints:
            spec["taints"] = after
        annotations |= _note(current, OWNED_TAINTS, set(wanted.taints))
    if wanted.cordoned and not node["spec"].get("unschedulable"):
        spec["unschedulable"], annotations[CORDONED] = True, "true"
    elif not wanted.cordoned and CORDONED in current:
        spec["unschedulable"], annotations[CORDONED] = None, None
    patch: Patch = {}
    if annotations:
        patch["metadata"] = {"annotations": annotations}
    if spec:
        # Others set taints, too: theirs are not to be lost.
        patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
        patch["spec"] = spec
    return make_labels_patch(node, wanted.labels), patch


def make_labels_patch(node: Mapping[str, Any], wanted: Texts, *, keep: bool = False) -> Patch:
    """A merge patch of the labels; with ``keep`` those that are owned and not wanted stay."""
    metadata = node["metadata"]
    current, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    owned = _parse_owned(annotations.get(OWNED_LABELS))
    if keep:
        wanted = {**{key: current[key] for key in owned if key in current}, **wanted}
    labels = merge_owned(current, wanted, owned)
    noted = _note(annotations, OWNED_LABELS, find_owned(current, wanted, owned))
    if not labels and not noted:
        return {}
    return {"metadata": {"labels": labels, "annotations": noted}}


def merge_owned(current: Texts, wanted: Texts, owned: set[str]) -> dict[str, str | None]:
    """What changes: new ones, own ones with another value, and none in place of own ones no longer wanted."""
    changes: dict[str, str | None] = {
        key: value
        for key, value in wanted.items()
        if key not in current or (key in owned and current[key] != value)
    }
    return changes | {key: None for key in owned if key not in wanted and key in current}


def find_owned(current: Texts, wanted: Texts, owned: set[str]) -> set[str]:
    """Which of the wanted are ours after that: another value that others have set stays theirs."""
    return {key for key, value in wanted.items() if key in owned or current.get(key, value) == value}


def merge_taints(
    current: Sequence[Mapping[str, Any]], wanted: Mapping[str, tuple[str, str]], owned: set[str]
) -> list[Mapping[str, Any]]:
    """The taints after the change: the kubelet registers with those of the config, so these are ours."""
    after: list[Mapping[str, Any]] = []
    for taint in current:
        key = taint["key"]
        if key not in wanted and key in owned:
            continue
        after.append(_make_taint(key, *wanted[key], taint) if key in wanted else taint)
    present = {taint["key"] for taint in current}
    return after + [_make_taint(key, *wanted[key], {}) for key in sorted(wanted.keys() - present)]


def _make_taint(key: str, effect: str, value: str, before: Mapping[str, Any]) -> Mapping[str, Any]:
    if (before.get("effect"), before.get("value", "")) == (effect, value):
        return before
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _parse_owned(text: str | None) -> set[str]:
    """A list of keys as JSON; what a user has broken owns nothing."""
    try:
        found: object = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return set()
    return set(map(str, cast("list[object]", found))) if isinstance(found, list) else set()


def _note(annotations: Texts, name: str, owned: set[str]) -> dict[str, str | None]:
    """The change of the annotation that lists them."""
    text = json.dumps(sorted(owned), separators=(",", ":")) if owned else None
    return {} if annotations.get(name) == text else {name: text}
