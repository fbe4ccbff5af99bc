"""Elections over etcd's twin, with a clock that needs no waiting."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address

import trio
from trio.testing import MockClock

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions import enums_pb2
from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.network_pb2 import LinkStatusSpec, OperatorSpecSpec, VIPOperatorSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.api.rpc import Code, RpcError
from talos.clusterd.controllers.virtual_address import VirtualAddressController
from talos.clusterd.hcloud import CloudError
from talos.etcd.election import LEASE_TTL, Election
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

KEY = b"talos:v1:vip:election:10.0.0.100"


class Etcd:
    """Keys under leases. ``lost`` are candidates that do not reach it."""

    def __init__(self) -> None:
        self.keys: dict[bytes, tuple[bytes, int]] = {}
        self.leases: dict[int, float] = {}
        self.lost: set[str] = set()
        self.writes = 0

    def check(self) -> None:
        """End the leases whose time is over."""
        now = trio.current_time()
        self.leases = {lease: end for lease, end in self.leases.items() if end > now}
        self.keys = {key: found for key, found in self.keys.items() if found[1] in self.leases}


class Client:
    def __init__(self, etcd: Etcd, candidate: str) -> None:
        self.etcd, self.candidate = etcd, candidate

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.candidate in self.etcd.lost:
            raise RpcError(Code.UNAVAILABLE, "no connection")
        self.etcd.check()

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        await self._reach()
        [compare] = request.compare
        is_free = compare.key not in self.etcd.keys
        for operation in request.success if is_free else ():
            self.etcd.writes += 1
            self.etcd.keys[compare.key] = operation.request_put.value, operation.request_put.lease
        return pb.TxnResponse(succeeded=is_free)

    async def grant_lease(self, seconds: int) -> int:
        await self._reach()
        self.etcd.writes += 1
        lease = self.etcd.writes
        self.etcd.leases[lease] = trio.current_time() + seconds
        return lease

    async def keep_lease(self, lease: int) -> int:
        await self._reach()
        if lease not in self.etcd.leases:
            return 0
        self.etcd.leases[lease] = trio.current_time() + LEASE_TTL
        return LEASE_TTL

    async def revoke_lease(self, lease: int) -> None:
        await self._reach()
        self.etcd.leases.pop(lease, None)


@asynccontextmanager
async def open_client(etcd: Etcd, candidate: str) -> AsyncGenerator[Client]:
    yield Client(etcd, candidate)


class Candidate:
    def __init__(self, etcd: Etcd, name: str, leaders: set[str]) -> None:
        self.name, self.leaders = name, leaders
        self.scope = trio.CancelScope()
        self.election = Election(KEY, name, partial(open_client, etcd, name), self.report, Log())

    async def report(self, is_leader: bool) -> None:
        if is_leader:
            assert not self.leaders, "two leaders"
            self.leaders.add(self.name)
        else:
            self.leaders.discard(self.name)

    async def run(self) -> None:
        with self.scope:
            await self.election.run()


async def test_one_leads_and_another_follows_when_it_ends_or_is_cut_off(autojump_clock: MockClock) -> None:
    etcd, leaders = Etcd(), set[str]()
    async with trio.open_nursery() as nursery:
        candidates = {name: Candidate(etcd, name, leaders) for name in ("a", "b", "c")}
        for candidate in candidates.values():
            nursery.start_soon(candidate.run)
        await trio.sleep(60)
        (first,) = leaders
        assert etcd.writes < 10, "those that do not lead write nothing"
        candidates[first].scope.cancel()
        await trio.sleep(5)
        (second,) = leaders
        assert second != first
        etcd.lost.add(second)
        # It gives up before its lease ends, and no other node takes its place earlier.
        await trio.sleep(LEASE_TTL + 5)
        (third,) = leaders
        assert third not in {first, second}
        etcd.lost.clear()
        await trio.sleep(30)
        assert leaders == {third}
        nursery.cancel_scope.cancel()


async def test_the_leader_has_the_address_while_its_link_is_up(autojump_clock: MockClock) -> None:
    state, etcd = MemoryState(), Etcd()
    vip = VIPOperatorSpec(ip=NetIP(ip=ip_address("10.0.0.100").packed), gratuitous_arp=True)
    spec = OperatorSpecSpec(operator=enums_pb2.OPERATOR_VIP, link_name="eth0", vip=vip)
    await put(state, kinds.OPERATOR_SPEC, "vip/eth0/10.0.0.100", spec)
    await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(link_state=True))
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="one"))
    async with trio.open_nursery() as nursery:
        controller = VirtualAddressController(partial(open_client, etcd, "one"), Log())
        await nursery.start(run_controllers, state, [controller])

        async def addresses() -> list[str]:
            await trio.sleep(10)
            return [item.id for item in await state.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG)]

        assert await addresses() == []
        await put(state, *ids.ETCD_SERVICE, ServiceSpec(running=True, healthy=True))
        name = "operator/vip/eth0/10.0.0.100"
        assert await addresses() == [name]
        found = (await state.get(kinds.ADDRESS_SPEC, name, namespace=ids.NETWORK_CONFIG)).spec
        assert (found.address.prefix_length, found.announce_with_arp) == (32, True)
        await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(link_state=False))
        assert await addresses() == []
        assert etcd.keys.keys() <= {KEY}
        etcd.check()
        assert not etcd.keys, "it resigns"

        await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(link_state=True))
        assert await addresses() == [name]
        await controller.resign()
        etcd.check()
        assert not etcd.keys, "the key is free when it returns"
        assert await addresses() == []
        await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(link_state=True, mtu=1400))
        assert await addresses() == []
        etcd.check()
        assert not etcd.keys, "it takes part no more"
        nursery.cancel_scope.cancel()


async def test_a_cloud_assigns_the_address_first(autojump_clock: MockClock) -> None:
    state, etcd, requests, failing = MemoryState(), Etcd(), list[str](), [True]

    async def take(token: str, address: object) -> None:
        requests.append(f"{token} {address}")
        await trio.sleep(5)
        if failing[0]:
            raise CloudError("out of order")

    vip = VIPOperatorSpec(ip=NetIP(ip=ip_address("10.0.0.100").packed))
    vip.h_cloud.SetInParent()
    spec = OperatorSpecSpec(operator=enums_pb2.OPERATOR_VIP, link_name="eth0", vip=vip)
    await put(state, kinds.OPERATOR_SPEC, "vip/eth0/10.0.0.100", spec)
    await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(link_state=True))
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="one"))
    await put(state, *ids.ETCD_SERVICE, ServiceSpec(running=True, healthy=True))
    config = b"apiVersion: v1alpha1\nkind: HCloudVIPConfig\nname: 10.0.0.100\nlink: eth0\napiToken: secret\n"
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config))
    lines: list[str] = []
    async with trio.open_nursery() as nursery:
        log = Log(write=lines.append)
        controller = VirtualAddressController(partial(open_client, etcd, "one"), log, take)
        await nursery.start(run_controllers, state, [controller])

        async def addresses() -> list[str]:
            await trio.sleep(15)
            return [item.id for item in await state.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG)]

        assert await addresses() == []
        assert requests[0] == "secret 10.0.0.100"
        assert len([line for line in lines if "is not had from the cloud: out of order" in line]) == 1
        assert "secret" not in str(lines)
        failing[0] = False
        assert await addresses() == ["operator/vip/eth0/10.0.0.100"]
        count = len(requests)
        await trio.sleep(60)
        assert len(requests) == count, "it keeps its lease although the cloud was slow"
        nursery.cancel_scope.cancel()
