"""A node that is not rebooted after all is schedulable again; one that is left cordoned is named."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast, override

import pytest

from talos.api.cosi.state_pb2 import GetRequest, GetResponse
from talos.api.definitions.k8s_pb2 import NodenameSpec
from talos.client.session import Session
from talos.kubernetes.client import JSON, MAX_REPLY, MERGE, KubernetesClient, KubernetesError, Reply
from talos.system.errors import UserError
from talos.talosctl.client.drain import Drainer

NODE, NAME = "10.0.0.2", "cp-1"
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class NamedNode:
    """As much of a session as draining uses: the node's name in Kubernetes."""

    async def unary(
        self, node: str, method: str, request: GetRequest, reply: type[GetResponse]
    ) -> GetResponse:
        assert (node, method, request.type) == (
            NODE,
            "/cosi.resource.State/Get",
            "Nodenames.kubernetes.talos.dev",
        )
        found = reply()
        found.resource.spec.proto_spec = NodenameSpec(nodename=NAME).SerializeToString()
        return found


class Api(KubernetesClient):
    """As much of Kubernetes as draining uses: one node with one pod of a ReplicaSet, and what it becomes."""

    def __init__(
        self,
        *,
        eviction: KubernetesError | None = None,
        pods: KubernetesError | None = None,
        is_empty: bool = False,
    ) -> None:
        # Neither a context nor a connection: all goes through `call`.
        self.changes: list[bool] = []
        self.evicted = asyncio.Event()
        self._failures = {"GET": pods, "POST": eviction}
        self._is_empty = is_empty

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
        node = f"/api/v1/nodes/{NAME}"
        if (method, path) == ("GET", node):
            ready = {"type": "Ready", "status": "True"}
            unschedulable = bool(self.changes and self.changes[-1])
            return {"spec": {"unschedulable": unschedulable}, "status": {"conditions": [ready]}}
        if (method, path) == ("PATCH", node):
            assert body is not None
            assert kind == MERGE
            self.changes.append(bool(body["spec"]["unschedulable"]))
            return {}
        if failure := self._failures[method]:
            raise failure
        if method == "POST":
            assert path == "/api/v1/namespaces/default/pods/web/eviction"
            self.evicted.set()
            return {}
        if self._is_empty:
            return {"items": []}
        owner = {"kind": "ReplicaSet", "controller": True}
        metadata = {"name": "web", "namespace": "default", "uid": "u1", "ownerReferences": [owner]}
        return {"items": [{"metadata": metadata, "status": {"phase": "Running"}}]}


def make_drainer(api: Api, seconds: float = 0.0) -> Drainer:
    async def connect(_: Session) -> KubernetesClient:
        return api

    return Drainer(seconds, connect=connect)


def drain(drainer: Drainer) -> None:
    asyncio.run(drainer.drain(cast("Session", NamedNode()), NODE))


@pytest.mark.parametrize(
    ("api", "reason"),
    [
        (Api(), "not drained within 0 s: default/web: not ended yet"),
        (Api(eviction=KubernetesError(HTTPStatus.TOO_MANY_REQUESTS, BUDGET)), f"default/web: .*{BUDGET}"),
        (Api(pods=KubernetesError(HTTPStatus.INTERNAL_SERVER_ERROR, "no")), "Kubernetes: .*no"),
    ],
)
def test_a_node_that_is_not_drained_is_schedulable_again(
    api: Api, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drainer = make_drainer(api)
    with pytest.raises(UserError, match=reason):
        drain(drainer)
    assert api.changes == [True, False]
    capsys.readouterr()
    drainer.show_cordoned()
    assert capsys.readouterr().err == ""


def test_a_node_that_is_not_drained_goes_down_unless_that_is_strict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api()
    drainer = make_drainer(api)
    drainer.is_strict = False
    drain(drainer)
    assert api.changes == [True, False]
    assert "it goes down all the same" in capsys.readouterr().err


def test_an_interrupted_drain_leaves_the_node_schedulable() -> None:
    api = Api()

    async def interrupt() -> None:
        draining = asyncio.create_task(make_drainer(api, 60.0).drain(cast("Session", NamedNode()), NODE))
        await api.evicted.wait()
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining

    asyncio.run(interrupt())
    assert api.changes == [True, False]


def test_a_node_without_wait_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(is_empty=True)
    drainer = make_drainer(api)
    drain(drainer)
    assert api.changes == [True]
    capsys.readouterr()
    drainer.show_cordoned()
    assert "kubectl uncordon cp-1" in capsys.readouterr().err
    asyncio.run(drainer.uncordon(cast("Session", NamedNode()), NODE))
    drainer.show_cordoned()
    assert api.changes == [True, False]
    assert "kubectl" not in capsys.readouterr().err


def test_the_steps_of_a_drain_are_shown_by_the_node_s_name(capsys: pytest.CaptureFixture[str]) -> None:
    drainer = make_drainer(Api(is_empty=True))

    async def reboot() -> None:
        async with drainer.around(cast("Session", NamedNode()), NODE, uncordons=True):
            pass

    asyncio.run(reboot())
    assert capsys.readouterr().err.splitlines() == [
        "cp-1: cordoning node",
        "cp-1: node cordoned",
        "cp-1: draining node",
        "cp-1: node drained",
        "cp-1: waiting for node to become Ready",
        "cp-1: uncordoning node",
        "cp-1: node uncordoned",
    ]


def test_a_node_that_was_cordoned_before_stays_so() -> None:
    api = Api()
    api.changes.append(True)
    with pytest.raises(UserError):
        drain(make_drainer(api))
    assert api.changes == [True]
