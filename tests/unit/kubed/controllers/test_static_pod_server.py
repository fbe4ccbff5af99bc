"""The server of static pods: one address for as long as the node runs."""

import json
import math
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import (
    NodenameSpec,
    StaticPodSpec,
    StaticPodStatusSpec,
)
from talos.config.static_pods import API_SERVER
from talos.kubed.controllers.static_pod_server import (
    END_TIMEOUT,
    LIST_DELAY,
    POLL_INTERVAL,
    SETTLE,
    Replacements,
    StaticPodServer,
)
from talos.kubed.rollout import POD_UID
from talos.machined.services.listener import open_listener
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_struct
from talos.system.cgroups import PodGroup


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """What PID 1 hands over."""
    with open_listener() as found:
        yield found


@asynccontextmanager
async def serving(state: MemoryState, listener: socket.socket) -> AsyncGenerator[int]:
    """The server's port."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [StaticPodServer(listener)])
        await trio.testing.wait_all_tasks_blocked(0.05)
        yield await find_port(state)
        nursery.cancel_scope.cancel()


async def find_port(state: MemoryState) -> int:
    url = (await state.get(*ids.STATIC_POD_SERVER_STATUS)).spec.url
    return urlsplit(url).port or 0


async def fetch(port: int) -> list[str]:
    """Names of the pods that are served."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        reply = await stream.receive_some()
    return [pod["metadata"]["name"] for pod in json.loads(reply.partition(b"\r\n\r\n")[2])["items"]]


async def test_a_server_that_starts_again_has_the_same_port_and_all_pods_at_once(
    listener: socket.socket,
) -> None:
    state = MemoryState()
    pod = to_struct({"metadata": {"name": "first"}})
    await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec(pod=pod))
    # For one that is not valid the kubelet would take none.
    await put(state, kinds.STATIC_POD, "mine", StaticPodSpec(pod=to_struct({"metadata": {"name": "mine"}})))
    async with serving(state, listener) as port:
        assert port == listener.getsockname()[1]
        assert await fetch(port) == ["first"]
    # It waits for the next one.
    async with await trio.open_tcp_stream("127.0.0.1", port), serving(state, listener) as again:
        assert again == port
        # An empty list would end the pods.
        assert await fetch(port) == ["first"]


def make_offer(image: str) -> dict[str, Any]:
    metadata = {"name": "server", "namespace": "kube-system"}
    return {"metadata": metadata, "spec": {"containers": [{"image": image}]}}


async def test_a_new_version_waits_until_the_old_one_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    one, two = {"server": make_offer("one")}, {"server": make_offer("two")}
    groups, uids = {"u1": PodGroup.BUSY}, {"server": "u1"}
    replacements = Replacements(groups.__getitem__)
    assert replacements.choose(one, {}) == [one["server"]]
    assert replacements.choose(one, uids) == [one["server"]]
    assert replacements.pause == math.inf
    assert replacements.choose(two, uids) == []
    assert replacements.pause == POLL_INTERVAL
    autojump_clock.jump(END_TIMEOUT / 2)
    assert replacements.choose(two, uids) == []
    groups["u1"] = PodGroup.EMPTY
    assert replacements.choose(two, uids) == []
    autojump_clock.jump(LIST_DELAY + 1)
    assert replacements.choose(two, uids) == []
    groups["u1"] = PodGroup.GONE
    # The kubelet has not let go of it yet.
    assert replacements.choose(two, uids) == []
    autojump_clock.jump(SETTLE + 0.01)
    assert replacements.choose(two, uids) == [two["server"]]
    assert replacements.pause == math.inf


async def test_a_new_version_waits_until_the_kubelet_has_listed_containers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its group may be removed before."""
    one, two = {"server": make_offer("one")}, {"server": make_offer("two")}
    replacements = Replacements(lambda _uid: PodGroup.GONE)
    assert replacements.choose(one, {"server": "u1"}) == [one["server"]]
    assert replacements.choose(two, {"server": "u1"}) == []
    autojump_clock.jump(LIST_DELAY - 0.1)
    assert replacements.choose(two, {"server": "u1"}) == []
    autojump_clock.jump(SETTLE)
    assert replacements.choose(two, {"server": "u1"}) == [two["server"]]


async def test_a_version_that_does_not_end_in_time_is_left_to_the_kubelet(
    autojump_clock: trio.testing.MockClock,
) -> None:
    one, two = {"server": make_offer("one")}, {"server": make_offer("two")}
    replacements = Replacements(lambda _uid: PodGroup.BUSY)
    assert replacements.choose(one, {"server": "u1"}) == [one["server"]]
    assert replacements.choose(two, {"server": "u1"}) == []
    autojump_clock.jump(END_TIMEOUT + 0.01)
    assert replacements.choose(two, {"server": "u1"}) == [two["server"]]


async def test_a_pod_that_the_kubelet_has_not_shown_is_replaced_at_once() -> None:
    one, two = {"server": make_offer("one")}, {"server": make_offer("two")}
    replacements = Replacements(lambda _uid: PodGroup.BUSY)
    assert replacements.choose(one, {}) == [one["server"]]
    assert replacements.choose(two, {}) == [two["server"]]


async def test_the_server_leaves_out_what_has_to_wait(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    groups = {"u1": PodGroup.BUSY}
    replacements = Replacements(groups.__getitem__)
    monkeypatch.setattr("talos.kubed.controllers.static_pod_server.Replacements", lambda: replacements)
    state, name = MemoryState(), "kube-system/server-node"
    await put(state, *ids.NODENAME, NodenameSpec(nodename="node"))
    await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec(pod=to_struct(make_offer("one"))))
    async with serving(state, listener) as port:
        status = StaticPodStatusSpec()
        await put(state, kinds.STATIC_POD_STATUS, name, status, annotations={POD_UID: "u1"})
        await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec(pod=to_struct(make_offer("two"))))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert await fetch(port) == []
        groups["u1"] = PodGroup.GONE
        while await fetch(port) != ["server"]:  # noqa: ASYNC110 - only a request shows it
            await trio.sleep(0.05)
