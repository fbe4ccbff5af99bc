"""The State over real gRPC on a unix socket, as the daemons use it."""

from pathlib import Path

import pytest
import trio
from tests.unit.rpc.echo import run_daemon

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.process.run import Daemon
from talos.resource.changes import modify, wait_for
from talos.resource.kinds import ADDRESS_STATUS, DNS_UPSTREAM
from talos.resource.memory.state import MemoryState
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.resource import make_resource
from talos.resource.state import NotFoundError, WatchOptions
from talos.rpc.channel import open_channel
from talos.rpc.server import serve


async def put(state: MemoryState | RemoteState, id: str, link: str = "eth0") -> None:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = link

    await modify(state, ADDRESS_STATUS, id, change, owner="test")


def test_calls_and_refusals(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        memory = MemoryState()
        async with (
            serve(daemon, [make_state_service(memory)], tmp_path / "s"),
            open_channel(daemon, tmp_path / "s") as transport,
        ):
            state = RemoteState(transport)
            await put(state, "a")
            await put(state, "a", "eth1")
            assert await state.get(ADDRESS_STATUS, "a") == await memory.get(ADDRESS_STATUS, "a")
            assert await state.list(ADDRESS_STATUS) == await memory.list(ADDRESS_STATUS)
            with pytest.raises(NotFoundError):
                await state.get(ADDRESS_STATUS, "b")
            spec = DNS_UPSTREAM.spec()
            spec.update({"healthy": True})
            await state.create(make_resource(DNS_UPSTREAM, "u", spec))
            assert (await state.get(DNS_UPSTREAM, "u")).spec == spec

    run_daemon(main)


def test_a_watch_outlives_the_server(tmp_path: Path) -> None:
    async def main(daemon: Daemon) -> None:
        memory = MemoryState()
        service = make_state_service(memory)
        stopped = trio.Event()

        async def run_server(end: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
            async with serve(daemon, [service], tmp_path / "s", grace=0.1):
                task_status.started()
                await end.wait()
            stopped.set()

        async with (
            open_channel(daemon, tmp_path / "s", wait_for_ready=True) as transport,
            trio.open_nursery() as nursery,
        ):
            state = RemoteState(transport)
            end = trio.Event()
            await nursery.start(run_server, end)
            await put(memory, "a")
            async with state.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True)) as events:
                seen = [(await anext(events))[0] for _ in range(2)]
                end.set()
                # Only then: its end removes the socket.
                await stopped.wait()
                await put(memory, "b")
                await nursery.start(run_server, trio.Event())
                seen.append((await anext(events))[0])
            assert [event.type.name for event in seen] == ["CREATED", "BOOTSTRAPPED", "CREATED"]
            found = await wait_for(state, ADDRESS_STATUS, "b", lambda item: item.spec.link_name == "eth0")
            assert found == await memory.get(ADDRESS_STATUS, "b")
            nursery.cancel_scope.cancel()

    run_daemon(main)
