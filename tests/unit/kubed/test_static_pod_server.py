"""The server of static pods: one address for as long as the node runs."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import StaticPodServerStatusSpec, StaticPodSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.controllers.static_pod_server import StaticPodServer
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_struct
from talos.system.logging import Log


@asynccontextmanager
async def serving(state: MemoryState, former: int = 0) -> AsyncGenerator[int]:
    """The server's port, which is not its former one."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [StaticPodServer(Log())])
        await trio.testing.wait_all_tasks_blocked(0.05)
        found = await find_port(state)
        assert found not in {0, former}
        yield found
        nursery.cancel_scope.cancel()


async def find_port(state: MemoryState) -> int:
    url = (await state.get(*ids.STATIC_POD_SERVER_STATUS)).spec.url
    return urlsplit(url).port or 0


async def ask(port: int) -> list[str]:
    """Names of the pods that are served."""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            reply = await stream.receive_some()
    return [pod["metadata"]["name"] for pod in json.loads(reply.partition(b"\r\n\r\n")[2])["items"]]


async def test_a_server_that_starts_again_has_the_same_port_and_all_pods_at_once() -> None:
    state = MemoryState()
    pod = to_struct({"metadata": {"name": "first"}})
    await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec(pod=pod))
    # For one that is not valid the kubelet would take none.
    await put(state, kinds.STATIC_POD, "mine", StaticPodSpec(pod=to_struct({"metadata": {"name": "mine"}})))
    async with serving(state) as port:
        assert await ask(port) == ["first"]
    async with serving(state) as again:
        assert again == port
        # An empty list would end the pods.
        assert await ask(port) == ["first"]


async def test_a_port_that_is_taken_meanwhile_is_left() -> None:
    state = MemoryState()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        status = StaticPodServerStatusSpec(url=f"http://127.0.0.1:{port}")
        await put(state, *ids.STATIC_POD_SERVER_STATUS, status, owner="k8s.StaticPodServerController")
        async with serving(state, port) as other:
            assert await ask(other) == []
