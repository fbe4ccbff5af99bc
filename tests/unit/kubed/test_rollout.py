"""Which static pods are offered when, and the turn of a node among the others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import StaticPodStatusSpec
from talos.api.rpc import Code, RpcError
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.etcd.lock import STATIC_PODS, LockedError
from talos.kubed import rollout
from talos.kubed.rollout import (
    ETCD_DEADLINE,
    KEEP_ALIVE_INTERVAL,
    KUBELET_TIMEOUT,
    LEASE_TTL,
    POD_VERSION,
    PodChange,
    RolloutLock,
    RolloutProgress,
    choose,
    find_progress,
    is_underway,
    make_version,
)
from talos.resource import kinds
from talos.resource.objects import to_struct
from talos.resource.resource import make_resource


def make_pod(version: str = "1", image: str = "server:1") -> dict[str, Any]:
    container = {"name": "server", "image": image, "command": ["server", "--a"]}
    annotations = {"talos.dev/config-version": version}
    return {
        "metadata": {"name": "server", "annotations": annotations},
        "spec": {"containers": [container]},
    }


OLD, NEW = to_struct(make_pod("1")), to_struct(make_pod("2"))


def test_the_kubelets_copy_has_the_version_of_what_it_was_offered() -> None:
    copy = make_pod()
    copy["metadata"] |= {"name": "server-node", "uid": "1"}
    copy["metadata"]["annotations"] |= {"kubernetes.io/config.hash": "1"}
    copy["spec"]["containers"][0] |= {"args": None, "terminationMessagePath": "/dev/termination-log"}
    assert make_version(copy) == make_version(make_pod())
    assert make_version(make_pod("2")) != make_version(make_pod())
    assert make_version(make_pod(image="server:2")) != make_version(make_pod())


@pytest.mark.parametrize(
    ("shown", "is_ready", "progress"),
    [
        (None, True, RolloutProgress.UNSEEN),
        ("1", True, RolloutProgress.READY),
        ("1", False, RolloutProgress.STARTING),
        ("2", True, RolloutProgress.OUTDATED),
    ],
)
def test_a_status_counts_for_its_own_version(
    shown: str | None, is_ready: bool, progress: RolloutProgress
) -> None:
    status = None
    if shown:
        conditions = [{"type": "Ready", "status": str(is_ready)}]
        spec = StaticPodStatusSpec(pod_status=to_struct({"conditions": conditions}))
        version = make_version(make_pod(shown))
        status = make_resource(kinds.STATIC_POD_STATUS, "server", spec, annotations={POD_VERSION: version})
    assert find_progress(OLD, status) is progress


def ready() -> PodChange:
    return PodChange(NEW, NEW, RolloutProgress.READY)


@pytest.mark.parametrize(
    ("changes", "without", "with_turn"),
    [
        # Nothing runs yet: no lock is needed.
        ({API_SERVER: PodChange(NEW, None, RolloutProgress.UNSEEN)}, [API_SERVER], [API_SERVER]),
        ({API_SERVER: ready()}, [], []),
        # What serves waits for the turn, and the others for the API server.
        (
            {
                API_SERVER: PodChange(NEW, OLD, RolloutProgress.READY),
                SCHEDULER: PodChange(NEW, OLD, RolloutProgress.READY),
            },
            [],
            [API_SERVER],
        ),
        (
            {API_SERVER: ready(), SCHEDULER: PodChange(NEW, OLD, RolloutProgress.READY)},
            [],
            [SCHEDULER],
        ),
        # The kubelet may still run the one before.
        ({API_SERVER: PodChange(NEW, OLD, RolloutProgress.OUTDATED)}, [], [API_SERVER]),
        # What doesn't serve is mended at once.
        ({API_SERVER: PodChange(NEW, OLD, RolloutProgress.STARTING)}, [API_SERVER], [API_SERVER]),
        (
            {API_SERVER: ready(), CONTROLLER_MANAGER: PodChange(NEW, OLD, RolloutProgress.STARTING)},
            [CONTROLLER_MANAGER],
            [CONTROLLER_MANAGER],
        ),
    ],
)
def test_what_serves_waits_for_the_nodes_turn(
    changes: dict[str, PodChange], without: list[str], with_turn: list[str]
) -> None:
    assert choose(changes, has_lock=False) == without
    assert choose(changes, has_lock=True) == with_turn


@pytest.mark.parametrize(
    ("progress", "seconds", "underway"),
    [
        (RolloutProgress.READY, 0.0, False),
        (RolloutProgress.STARTING, 1e6, True),
        (RolloutProgress.OUTDATED, KUBELET_TIMEOUT - 1, True),
        (RolloutProgress.OUTDATED, KUBELET_TIMEOUT + 1, False),
        (RolloutProgress.UNSEEN, KUBELET_TIMEOUT + 1, False),
    ],
)
def test_a_turn_lasts_until_the_pod_is_ready(
    progress: RolloutProgress, seconds: float, underway: bool
) -> None:
    assert is_underway({API_SERVER: PodChange(NEW, NEW, progress)}, seconds=seconds) is underway


class Store:
    """etcd, in which one node may have the lock."""

    def __init__(self) -> None:
        self.holder = ""
        self.error: Exception | None = None
        self.taken = 0

    @asynccontextmanager
    async def local(self) -> AsyncGenerator[Any]:
        if self.error is not None:
            raise self.error
        yield self


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    async def take_lock(client: Any, name: str, holder: str, lease: int, seconds: int) -> None:
        store = cast("Store", client)
        assert (name, seconds, lease > 0) == (STATIC_PODS, LEASE_TTL, True)
        store.taken += 1
        if store.holder not in {"", holder}:
            raise LockedError(name, store.holder)
        store.holder = holder

    async def release_all(client: Any, name: str, holder: str) -> None:
        store = cast("Store", client)
        if store.holder == holder:
            store.holder = ""

    monkeypatch.setattr(rollout, "take_lock", take_lock)
    monkeypatch.setattr(rollout, "release_all", release_all)
    return Store()


async def test_one_node_has_the_turn(store: Store, autojump_clock: trio.testing.MockClock) -> None:
    first, second = RolloutLock(store), RolloutLock(store)
    assert not await first.take("cp-1")
    assert await second.take("cp-2") == "cp-1 changes its own and is not ready"
    assert second.holder == "cp-1"
    await second.release("cp-2")
    assert store.holder == "cp-1"
    taken = store.taken
    assert not await first.take("cp-1")
    assert store.taken == taken, "etcd is called although the lease lasts"
    await trio.sleep(KEEP_ALIVE_INTERVAL)
    assert not await first.take("cp-1")
    assert store.taken == taken + 1
    await first.release("cp-1")
    assert not await second.take("cp-2")


async def test_the_turn_of_the_process_before_is_given_back(store: Store) -> None:
    store.holder = "cp-1"
    await RolloutLock(store).release("cp-1")
    assert not store.holder


@pytest.mark.parametrize("error", [RpcError(Code.UNAVAILABLE, "no leader"), OSError("refused")])
async def test_without_etcd_a_node_goes_on_alone(
    store: Store, error: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    store.error = error
    lock = RolloutLock(store)
    assert (await lock.take("cp-1")).startswith("etcd: ")
    await trio.sleep(ETCD_DEADLINE + 1)
    assert not await lock.take("cp-1")
    store.error = None
    store.holder = "cp-2"
    assert await lock.take("cp-1")
