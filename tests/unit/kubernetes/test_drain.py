"""Draining evicts what a controller starts elsewhere, and goes on as long as budgets refuse."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, override

import trio
import trio.testing

from talos.kubernetes.client import (
    JSON,
    MAX_REPLY,
    OBJECTS_PER_PAGE,
    KubernetesClient,
    KubernetesError,
    Reply,
)
from talos.kubernetes.drain import drain, find_movable, is_evictable

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def make_pod(name: str, kind: str = "ReplicaSet", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    owners = [{"kind": kind, "controller": True}] if kind else []
    names = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": {**names, "ownerReferences": owners, **metadata}, "status": {"phase": phase}}


class Api(KubernetesClient):
    """As much of the API as draining uses; a pod is gone ``seconds`` after its eviction."""

    def __init__(self, *pods: dict[str, Any], seconds: float = 2.5) -> None:
        # Neither a context nor a connection: all goes through `call`.
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.refused: dict[str, float] = {}
        """Until when evictions are refused."""
        self.seconds = seconds
        self.evictions: list[str] = []
        self._ends: dict[str, float] = {}

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
        del kind, max_reply
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        for name in [name for name, end in self._ends.items() if end <= now]:
            del self.pods[name], self._ends[name]
        if method == "GET":
            assert path == f"/api/v1/pods?fieldSelector=spec.nodeName%3Done&limit={OBJECTS_PER_PAGE}"
            return {"items": list(self.pods.values())}
        assert body is not None
        name = body["metadata"]["name"]
        path, _, query = path.partition("?")
        assert path == f"/api/v1/namespaces/default/pods/{name}/eviction"
        assert body["deleteOptions"]["preconditions"] == {"uid": f"uid-{name}"}
        self.evictions.append(name)
        if now < self.refused.get(name, 0.0):
            raise KubernetesError(HTTPStatus.TOO_MANY_REQUESTS, REFUSED)
        if name not in self.pods:
            raise KubernetesError(HTTPStatus.NOT_FOUND, "not found")
        is_dry_run = query == "dryRun=All"
        assert body["deleteOptions"].get("dryRun") == (["All"] if is_dry_run else None)
        if not is_dry_run:
            self._ends[name] = now + self.seconds
        return {}


async def run(api: Api, seconds: float = 300.0) -> tuple[list[str], list[str]]:
    """What is left, and what was reported."""
    lines: list[str] = []
    left = await drain(
        api,
        "one",
        sleep=trio.sleep,
        now=trio.current_time,
        seconds=seconds,
        report=lines.append,
    )
    return left, lines


def test_only_what_a_controller_starts_elsewhere_is_evicted() -> None:
    assert is_evictable(make_pod("web"))
    assert is_evictable(make_pod("data", kind="StatefulSet"))
    assert not is_evictable(make_pod("flannel", kind="DaemonSet"))
    assert not is_evictable(make_pod("bare", kind=""))
    assert not is_evictable(make_pod("done", kind="Job", phase="Succeeded"))
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert not is_evictable(make_pod("kube-apiserver", kind="Node", annotations=mirror))


async def test_pods_are_evicted_once_and_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    api, began = Api(make_pod("a"), make_pod("b"), make_pod("proxy", kind="DaemonSet")), trio.current_time()
    left, lines = await run(api)
    assert left == []
    assert api.evictions == ["a", "b"]
    assert list(api.pods) == ["proxy"]
    assert lines == ["evicting default/a", "evicting default/b"]
    assert 2.5 <= trio.current_time() - began < 5


async def test_a_refused_eviction_is_repeated_and_reported_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    api = Api(make_pod("a"))
    api.refused["a"] = trio.current_time() + 32
    left, lines = await run(api)
    assert left == []
    assert lines == [f"default/a stays for now: {REFUSED}", "evicting default/a"]
    assert len(api.evictions) == 8


async def test_what_stays_is_named_with_its_reason_in_time(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    api, began = Api(make_pod("a"), make_pod("b"), seconds=1000), trio.current_time()
    api.refused["a"] = trio.current_time() + 1000
    left, _ = await run(api, 60)
    assert left == [f"default/a: {REFUSED}", "default/b: not ended yet"]
    assert trio.current_time() - began <= 60


async def test_a_pod_that_is_gone_or_ending_is_not_evicted(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    api = Api(make_pod("ending", deletionTimestamp="2026-01-01T00:00:00Z"))
    left, _ = await run(api, 10)
    assert api.evictions == []
    assert left == ["default/ending: not ended yet"]


async def test_a_dry_run_lists_what_would_move_and_evicts_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    api = Api(make_pod("web"), make_pod("db", "StatefulSet"), make_pod("log", "DaemonSet"))
    api.refused["db"] = 10.0
    assert await find_movable(api, "one") == {"default/web": "", "default/db": REFUSED}
    await trio.sleep(60)
    assert await find_movable(api, "one") == {"default/web": "", "default/db": ""}
    assert set(api.pods) == {"web", "db", "log"}
