"""What the discovery controller has written outlives it, until a service has answered."""

import asyncio
import socket

import pytest
import trio
import trio.testing
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.clusterd.discovery.test_client import KEY, make_local, running_server

from talos.api.definitions.cluster_pb2 import AffiliateSpec, ConfigSpec, IdentitySpec, ServiceEndpoint
from talos.clusterd.controllers.discovery_service import DiscoveryServiceController
from talos.clusterd.controllers.members import RAW_NAMESPACE
from talos.clusterd.discovery import client
from talos.process.run import Daemon, host
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.wakeup import Signal

"""Seconds, on a busy machine, too."""


async def configure(state: MemoryState, port: int) -> None:
    """This node, a service and another node that it has by the service."""
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="id-own"))
    config = ConfigSpec(
        registry_service_enabled=True,
        service_cluster_id="cluster",
        service_encryption_key=KEY,
        service_endpoints=[ServiceEndpoint(endpoint=f"127.0.0.1:{port}", insecure=True)],
    )
    await put(state, *ids.DISCOVERY_CONFIG, config)
    await put(state, kinds.AFFILIATE, "id-own", make_local("own"))
    owner = DiscoveryServiceController.name
    known: AffiliateSpec = make_local("known")
    await put(state, kinds.AFFILIATE, "service/id-known", known, namespace=RAW_NAMESPACE, owner=owner)


async def affiliates(state: MemoryState) -> list[str]:
    return [one.id for one in await state.list(kinds.AFFILIATE, namespace=RAW_NAMESPACE)]


def test_members_stay_until_a_service_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STALE", 0.0)
    lines: list[str] = []
    logged = Signal()

    def write(line: str) -> None:
        lines.append(line)
        logged.notify()

    async def main(daemon: Daemon) -> None:
        state = MemoryState()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        await configure(state, port)
        with trio.fail_after(REAL_TIMEOUT):
            async with trio.open_nursery() as nursery:
                controller = DiscoveryServiceController(daemon.bridge, Log(write=write))
                await nursery.start(run_controllers, state, [controller])
                while not any("the discovery service fails" in line for line in lines):
                    await logged.wait()
                # The rounds of the controller write what it has.
                for _ in range(3):
                    await put(state, *ids.IDENTITY, IdentitySpec(node_id="id-own"))
                    await trio.testing.wait_all_tasks_blocked(0.01)
                assert await affiliates(state) == ["service/id-known"]
                async with running_server(daemon, port=port):
                    await _wait_until_empty(state)
                nursery.cancel_scope.cancel()

    asyncio.run(host(main, "test", Log(write=lines.append)))


async def _wait_until_empty(state: MemoryState) -> None:
    async with state.watch(kinds.AFFILIATE, namespace=RAW_NAMESPACE) as events:
        while await affiliates(state):
            await anext(events)
