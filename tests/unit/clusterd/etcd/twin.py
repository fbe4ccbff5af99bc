"""A cluster of etcd that a test makes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import trio
from tests.unit.etcd.twin import Etcd as Keys

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError

SPEC = SpecSpec(name="cp-3", advertised_addresses=[NetIP(ip=ip_address("10.0.0.4").packed)])


def member(number: int, name: str, last: int, *, is_learner: bool = False) -> pb.Member:
    clients = [f"https://10.0.0.{last}:2379"] if name else []
    return pb.Member(
        ID=number,
        name=name,
        peerURLs=[f"https://10.0.0.{last}:2380"],
        clientURLs=clients,
        isLearner=is_learner,
    )


class Etcd(Keys):
    """A cluster and the way to it. ``down`` are addresses that don't answer, ``cut_off`` reach no quorum.

    Removals end with ``failures``, one after the other.
    """

    def __init__(self, *members: pb.Member) -> None:
        super().__init__()
        self.list = list(members)
        self.down: set[str] = set()
        self.cut_off: set[str] = set()
        self.refusals: list[str] = []
        self.attempts: list[float] = []
        self.failures: list[RpcError] = []
        self.done: list[str] = []
        self.endpoint = "10.0.0.2"
        self.address = "10.0.0.2"
        self.own, self.leader = SpecSpec(name="cp-1"), 1

    async def spec(self) -> SpecSpec:
        return self.own

    async def peers(self) -> list[str]:
        return ["10.0.0.2", "10.0.0.3"]

    @asynccontextmanager
    async def member(self, address: str) -> AsyncGenerator["Etcd"]:
        if address in self.down:
            raise RpcError(Code.UNAVAILABLE, f"failed to connect to {address}")
        self.address = address
        yield self

    @asynccontextmanager
    async def other(self) -> AsyncGenerator["Etcd"]:
        self.attempts.append(trio.current_time())
        if self.refusals:
            raise RpcError(Code.UNAVAILABLE, self.refusals.pop())
        yield self

    any = local = other

    async def members(self, *, linearizable: bool = True) -> list[pb.Member]:
        del linearizable
        await trio.lowlevel.checkpoint()
        return list(self.list)

    async def status(self, seconds: float = 0) -> pb.StatusResponse:
        del seconds
        return pb.StatusResponse(header=pb.ResponseHeader(member_id=1), leader=self.leader)

    async def check_quorum(self) -> None:
        if self.address in self.cut_off:
            raise RpcError(Code.DEADLINE_EXCEEDED, "too late")

    async def add_learner(self, urls: list[str]) -> pb.MemberAddResponse:
        assert not any(one.isLearner for one in self.list), "etcd keeps each learner that it refuses"
        added = pb.Member(ID=97 + len(self.list), peerURLs=urls, isLearner=True)
        self.list.append(added)
        self.done.append("add")
        return pb.MemberAddResponse(member=added, members=self.list)

    def start_learner(self, name: str) -> None:
        """Let it vote."""
        self.list[-1].name, self.list[-1].isLearner = name, False

    async def remove_member(self, number: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.list = [one for one in self.list if number != one.ID]
        self.done.append(f"remove {number}")

    async def move_leader(self, target: int) -> None:
        self.done.append(f"lead {target}")


FIRST, SECOND, THIRD = member(1, "cp-1", 2), member(2, "cp-2", 3), member(3, "cp-3", 4)
