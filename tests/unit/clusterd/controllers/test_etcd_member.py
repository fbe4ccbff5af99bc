"""This node's member of etcd: promoted, and announced under the node's present addresses."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, cast

import trio
import trio.testing

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.controllers.etcd_member import EtcdMemberController
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

OWN = 0x2A
OLD, NEW = "https://10.0.0.4:2380", "https://10.0.0.9:2380"


@dataclass
class Etcd:
    """The cluster as the node's own member and another one show it; a learner at ``OLD`` is not reached."""

    url: str
    is_learner: bool
    done: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def other(self) -> AsyncGenerator["Etcd"]:
        yield self

    local = any = other

    async def status(self) -> pb.StatusResponse:
        return pb.StatusResponse(header=pb.ResponseHeader(member_id=OWN), isLearner=self.is_learner)

    async def members(self, *, linearizable: bool = True) -> list[pb.Member]:
        assert linearizable or not self.is_learner
        return [
            pb.Member(ID=1, peerURLs=["https://10.0.0.2:2380"]),
            pb.Member(ID=OWN, peerURLs=[self.url], isLearner=self.is_learner),
        ]

    async def update_member(self, member: int, urls: Sequence[str]) -> None:
        assert member == OWN
        (self.url,) = urls
        self.done.append(f"update {self.url}")

    async def promote(self, member: int) -> None:
        assert member == OWN
        if self.url == OLD:
            raise RpcError(Code.FAILED_PRECONDITION, "can only promote a learner member which is in sync")
        self.is_learner = False
        self.done.append("promote")


async def run(etcd: Etcd) -> list[str]:
    """What is done in a cluster by a node whose address is NEW."""
    state = MemoryState()
    spec = SpecSpec(name="cp-3", advertised_addresses=[NetIP(ip=ip_address("10.0.0.9").packed)])
    await put(state, *ids.ETCD_SERVICE, ServiceSpec(running=True), owner="test")
    await put(state, *ids.ETCD_SPEC, spec, owner="test")
    controller = EtcdMemberController(cast("Any", etcd), Log(write=lambda _: None))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [controller])
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    assert (await state.get(*ids.ETCD_MEMBER)).spec.member_id == f"{OWN:016x}"
    return etcd.done


async def test_a_learner_that_has_moved_announces_its_address_and_is_promoted() -> None:
    assert await run(Etcd(OLD, is_learner=True)) == [f"update {NEW}", "promote"]


async def test_a_learner_that_has_not_moved_is_promoted() -> None:
    assert await run(Etcd(NEW, is_learner=True)) == ["promote"]


async def test_a_member_announces_an_address_that_has_changed() -> None:
    assert await run(Etcd(OLD, is_learner=False)) == [f"update {NEW}"]
    assert await run(Etcd(NEW, is_learner=False)) == []
