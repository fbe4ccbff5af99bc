"""What a bootstrap finds of the other control plane nodes."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from talos.api.definitions import secrets_pb2, time_pb2
from talos.api.internal.membership_pb2 import PlanRequest, PlanResponse
from talos.api.machine import machine_pb2 as pb
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.resource import config_pb2
from talos.api.rpc import Call, Code, RpcError
from talos.machined.api.bootstrap import INTENDED, check_peer
from talos.machined.api.files import run_statfs
from talos.machined.api.peers import PeerCalls
from talos.machined.services.etcd import plan_etcd
from talos.resource import ids
from talos.resource.changes import put

from .conftest import Caller


class Peer:
    """Another node's API. ``is_up`` is whether it answers."""

    def __init__(self, *, has_data: bool = False, events: tuple[str, ...] = (), is_up: bool = True) -> None:
        self.has_data, self.events, self.is_up = has_data, events, is_up

    async def unary(self, node: str, method: str, request: object, reply: object) -> pb.ServiceListResponse:
        del node, request, reply
        await trio.lowlevel.checkpoint()
        assert method == "/machine.MachineService/ServiceList"
        if not self.is_up:
            raise RpcError(Code.UNAVAILABLE, "Connection refused")
        events = pb.ServiceEvents(events=[pb.ServiceEvent(msg=text) for text in self.events])
        etcd = pb.ServiceInfo(id="etcd", state="Waiting", events=events)
        return pb.ServiceListResponse(messages=[pb.ServiceList(services=[etcd])])

    async def has_path(self, node: str, path: str) -> bool:
        await trio.lowlevel.checkpoint()
        assert (node, path) == ("10.0.0.2", "/var/lib/etcd/member/wal")
        return self.has_data


class Files:
    """A transport to this node's files."""

    async def unary(
        self,
        method: str,
        request: StorageServiceStatfsRequest,
        reply: object,
        **settings: object,
    ) -> StorageServiceStatfsResponse:
        del reply, settings
        assert method == "/machine.StorageService/Statfs"
        return await run_statfs(request, Call(method=method, metadata={}, deadline=inf, peer=""))


async def test_a_path_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    @asynccontextmanager
    async def connect(server: object) -> AsyncGenerator[Files]:
        del server
        yield Files()

    async with AsyncExitStack() as stack:
        node = SimpleNamespace(connect_remote=connect)
        calls = PeerCalls(cast("Any", node), cast("Any", None), stack)
        assert await calls.has_path("10.0.0.2", str(tmp_path))
        assert not await calls.has_path("10.0.0.2", str(tmp_path / "member/wal"))
        with pytest.raises(RpcError, match=r"10\.0\.0\.2: path is not absolute"):
            await calls.has_path("10.0.0.2", "member")


@pytest.mark.parametrize(
    ("peer", "refusal"),
    [
        (Peer(has_data=True), "10.0.0.2 has data of etcd, whose cluster this node joins by itself"),
        (Peer(events=(INTENDED,)), "10.0.0.2 is being bootstrapped, too"),
        (Peer(events=("Running pre state",)), ""),
        (Peer(has_data=True, is_up=False), ""),
    ],
)
async def test_a_node_whose_etcd_is_away_for_the_moment_is_in_the_way(peer: Peer, refusal: str) -> None:
    refusals: list[RpcError] = []
    await check_peer(cast("Any", peer), "10.0.0.2", refusals)
    assert "; ".join(error.message for error in refusals).startswith(refusal)
    assert bool(refusals) is bool(refusal)


async def test_an_early_bootstrap_can_be_tried_again() -> None:
    """Clients repeat a call that fails with FAILED_PRECONDITION: the code of clusterd's refusal is kept."""

    class Early:
        async def unary(self, *_call: object) -> PlanResponse:
            await trio.lowlevel.checkpoint()
            raise RpcError(Code.FAILED_PRECONDITION, "etcd has no address on this node yet")

    @asynccontextmanager
    async def connect(_socket: str) -> AsyncGenerator[Any]:
        yield Early()

    with pytest.raises(RpcError, match="no address") as caught:
        await plan_etcd(connect, PlanRequest(start=PlanRequest.NEW))
    assert caught.value.code is Code.FAILED_PRECONDITION


async def test_nothing_begins_where_the_data_may_be_on_a_volume_that_is_not_there(
    caller: Caller,
) -> None:
    state = caller.node.state
    await put(state, *ids.MACHINE_TYPE, config_pb2.MachineTypeSpec(machine_type=config_pb2.CONTROL_PLANE))
    await put(state, *ids.ETCD_ROOT_SECRET, secrets_pb2.EtcdRootSpec())
    await put(state, *ids.TIME_STATUS, time_pb2.StatusSpec(synced=True))
    with pytest.raises(RpcError, match="not available yet: volume ETCD") as caught:
        await caller.call("Bootstrap", pb.BootstrapRequest())
    assert caught.value.code is Code.FAILED_PRECONDITION
