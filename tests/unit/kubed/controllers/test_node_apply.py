"""Labels, annotations, taints and the cordon of a node: ours follow the config, those of others stay."""

import json
from typing import Any, cast, override

import pytest
import trio

from talos.kubed.controllers.node_apply import (
    CORDONED,
    OWNED_ANNOTATIONS,
    OWNED_LABELS,
    OWNED_TAINTS,
    NodeApplyController,
    Wanted,
    make_patches,
)
from talos.kubed.controllers.node_status import make_status
from talos.kubed.node_access import KubeletIdentity, NodeAccess, NodeClient
from talos.kubernetes.client import KubernetesError
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.controller.controller import ControllerRuntime
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

NOTHING = Wanted(labels={}, annotations={}, taints=None, cordoned=False)


def make_node(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": "one", "resourceVersion": "7"}
    return {
        "metadata": {**metadata, "labels": labels or {}, "annotations": annotations or {}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def note(*keys: str) -> str:
    return json.dumps(sorted(keys), separators=(",", ":"))


def want(**changes: Any) -> Wanted:
    return Wanted(**{**{name: getattr(NOTHING, name) for name in Wanted.__slots__}, **changes})


def test_nothing_is_changed_where_nothing_differs() -> None:
    node = make_node({"rack": "r1"}, {OWNED_LABELS: note("rack")})
    assert make_patches(node, want(labels={"rack": "r1"})) == ({}, {})
    assert make_patches(make_node(), NOTHING) == ({}, {})


def test_a_label_is_set_changed_and_removed_with_the_config() -> None:
    labels, _ = make_patches(make_node(), want(labels={"rack": "r1"}))
    noted = {"annotations": {OWNED_LABELS: note("rack")}}
    assert labels == {"metadata": {"labels": {"rack": "r1"}, **noted}}
    node = make_node({"rack": "r1"}, {OWNED_LABELS: note("rack")})
    labels, _ = make_patches(node, want(labels={"rack": "r2"}))
    assert labels == {"metadata": {"labels": {"rack": "r2"}, "annotations": {}}}
    labels, _ = make_patches(node, NOTHING)
    assert labels == {"metadata": {"labels": {"rack": None}, "annotations": {OWNED_LABELS: None}}}


def test_a_broken_note_owns_nothing() -> None:
    node = make_node({"rack": "r1"}, {OWNED_LABELS: "[" * 100_000})
    labels, _ = make_patches(node, NOTHING)
    assert labels == {"metadata": {"labels": {}, "annotations": {OWNED_LABELS: None}}}


def test_what_others_have_set_stays() -> None:
    node = make_node({"rack": "theirs"}, {"note": "theirs"})
    assert make_patches(node, want(labels={"rack": "r1"}, annotations={"note": "ours"})) == ({}, {})
    assert make_patches(node, NOTHING) == ({}, {})


def test_what_others_have_set_alike_becomes_owned() -> None:
    node = make_node({"rack": "r1"})
    labels, _ = make_patches(node, want(labels={"rack": "r1"}))
    assert labels == {"metadata": {"labels": {}, "annotations": {OWNED_LABELS: note("rack")}}}


def test_an_annotation_is_owned_like_a_label() -> None:
    _, patch = make_patches(make_node(), want(annotations={"note": "ours"}))
    assert patch == {"metadata": {"annotations": {"note": "ours", OWNED_ANNOTATIONS: note("note")}}}


def test_taints_of_the_config_replace_each_other_and_no_other() -> None:
    theirs = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    old = {"key": "gpu", "effect": "NoSchedule", "value": "a"}
    node = make_node(annotations={OWNED_TAINTS: note("gpu", "gone")}, taints=[theirs, old, {"key": "gone"}])
    _, patch = make_patches(node, want(taints={"gpu": ("NoExecute", "b"), "new": ("NoSchedule", "")}))
    assert patch["spec"]["taints"] == [
        theirs,
        {"key": "gpu", "effect": "NoExecute", "value": "b"},
        {"key": "new", "effect": "NoSchedule"},
    ]
    # Another one who has changed them meanwhile has the change refused, and it is made anew.
    assert patch["metadata"] == {
        "resourceVersion": "7",
        "annotations": {OWNED_TAINTS: note("gpu", "new")},
    }


def test_a_worker_leaves_taints_alone() -> None:
    node = make_node(taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert make_patches(node, NOTHING) == ({}, {})


def test_a_cordon_is_marked_and_only_a_marked_one_taken_back() -> None:
    _, patch = make_patches(make_node(), want(cordoned=True))
    assert patch["spec"] == {"unschedulable": True}
    assert patch["metadata"]["annotations"] == {CORDONED: "true"}
    ours = make_node(annotations={CORDONED: "true"}, unschedulable=True)
    assert make_patches(ours, want(cordoned=True)) == ({}, {})
    _, patch = make_patches(ours, NOTHING)
    assert patch["spec"] == {"unschedulable": None}
    assert patch["metadata"]["annotations"] == {CORDONED: None}
    assert make_patches(make_node(unschedulable=True), NOTHING) == ({}, {})


def test_broken_notes_own_nothing() -> None:
    for text in ("{", "{}", "3", "null"):
        node = make_node({"rack": "r1"}, {OWNED_LABELS: text})
        labels, _ = make_patches(node, NOTHING)
        assert labels.get("metadata", {}).get("labels", {}) == {}


def test_the_status_shows_readiness_the_cordon_and_networks() -> None:
    node = make_node({"a": "b"}, podCIDRs=["10.244.1.0/24", "fd00::/64"], unschedulable=True)
    status = make_status(node)
    assert (status.nodename, status.node_ready, status.unschedulable) == ("one", True, True)
    assert dict(status.labels) == {"a": "b"}
    assert [prefix.prefix_length for prefix in status.pod_cid_rs] == [24, 64]


class Client:
    """An API that is down for two requests, then has a node and takes changes of it."""

    def __init__(self) -> None:
        self.calls = 0
        self.patches: list[Any] = []

    async def get_or_none(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/nodes/one"
        await trio.lowlevel.checkpoint()
        self.calls += 1
        if self.calls < 3:
            raise KubernetesError(0, "connection refused")
        return make_node()

    async def call(self, method: str, path: str, patch: Any, **_: Any) -> dict[str, Any]:
        assert (method, path) == ("PATCH", "/api/v1/nodes/one")
        await trio.lowlevel.checkpoint()
        self.patches.append(patch)
        return make_node()


@pytest.mark.usefixtures("autojump_clock")
async def test_what_the_api_does_not_take_now_is_tried_again_without_a_traceback() -> None:
    client, lines, state = Client(), list[str](), MemoryState()

    class Access(NodeAccess):
        @override
        async def find(self, runtime: ControllerRuntime) -> NodeClient:
            await trio.lowlevel.checkpoint()
            return NodeClient(name="one", is_admin=False, key=b"", connect=lambda: cast("Any", client))

    await put(state, kinds.NODE_STATUS, "one", kinds.NODE_STATUS.spec(nodename="one"))
    label = kinds.NODE_LABEL_SPEC.spec(key="rack", value="r1")
    await put(state, kinds.NODE_LABEL_SPEC, "rack", label)
    async with trio.open_nursery() as nursery:
        controller = NodeApplyController(Access(KubeletIdentity()), Log(write=lines.append))
        await nursery.start(run_controllers, state, [controller])
        while not client.patches:  # noqa: ASYNC110
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert client.patches[0]["metadata"]["labels"] == {"rack": "r1"}
    [line] = [line for line in lines if "the node is not changed yet: connection refused" in line]
    assert "Traceback" not in line
