"""AddressSpec of virtual addresses: the node that is elected has them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from talos.api.addresses import make_host_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import AddressSpecSpec, OperatorSpecSpec
from talos.clusterd.hcloud import CloudError, HetznerCloud
from talos.config.active import read_config
from talos.config.effective import network as effective
from talos.etcd.election import Election, OpenStore
from talos.resource import ids, kinds
from talos.resource.changes import copy_spec
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.resource import Phase
from talos.system.logging import Log

KEY = "talos:v1:vip:election:"
"""The prefix of the keys in etcd."""

type Take = Callable[[str, IPv4Address | IPv6Address], Awaitable[None]]
"""Has the cloud lead an address to this machine, by a token; CloudError."""


async def take_from_cloud(token: str, address: IPv4Address | IPv6Address) -> None:
    """By Hetzner's API."""
    await trio.to_thread.run_sync(HetznerCloud(token=token).take, address)


@dataclass(slots=True, eq=False)
class _Candidacy:
    spec: OperatorSpecSpec
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)
    is_leader: bool = False


class VirtualAddressController(Controller):
    """OperatorSpec of virtual addresses → AddressSpec, on the node that etcd's election has chosen.

    networkd sets the address as any other, and announces it to the link's machines. In a cloud its API is
    called first; a node for which that fails resigns, and another one tries.
    """

    name = "network.VIPController"
    inputs = (
        Input(kinds.OPERATOR_SPEC),
        Input(kinds.LINK_STATUS),
        Input(*ids.ETCD_SERVICE),
        Input(*ids.IDENTITY),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.ADDRESS_SPEC, shared=True),)

    def __init__(self, open_store: OpenStore, log: Log, take: Take = take_from_cloud) -> None:
        self._open_store = open_store
        self._log = log
        self._take = take
        self._running: dict[str, _Candidacy] = {}
        self._unended: set[_Candidacy] = set()
        self._has_resigned = False

    async def run(self, runtime: ControllerRuntime) -> None:
        """Take part in the elections until cancelled."""
        self._running.clear()
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                await self._follow(runtime, nursery)
                await self._write(runtime)
                runtime.reset_backoff()

    async def resign(self) -> None:
        """Take part in no election any more; returns when the keys are free, or will be by themselves."""
        self._has_resigned = True
        for candidacy in self._unended:
            candidacy.scope.cancel()
        for candidacy in list(self._unended):
            await candidacy.ended.wait()

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        identity = await runtime.get_or_none(*ids.IDENTITY)
        wanted = await self._find_wanted(runtime)
        for name, candidacy in list(self._running.items()):
            if wanted.get(name) != candidacy.spec:
                candidacy.scope.cancel()
                del self._running[name]
        for name, spec in wanted.items():
            if name not in self._running and identity is not None:
                candidacy = self._running[name] = _Candidacy(copy_spec(spec))
                self._unended.add(candidacy)
                nursery.start_soon(self._take_part, runtime, candidacy, identity.spec.node_id)

    async def _find_wanted(self, runtime: ControllerRuntime) -> Mapping[str, OperatorSpecSpec]:
        """Those that this node may have: it stays, its member of etcd runs, and the link is up."""
        service = await runtime.get_or_none(*ids.ETCD_SERVICE)
        if service is None or not service.spec.running:
            return {}
        up = {link.id for link in await runtime.list(kinds.LINK_STATUS) if link.spec.link_state}
        # Checked last: resign() may have been called meanwhile.
        operators = await runtime.list(kinds.OPERATOR_SPEC)
        if self._has_resigned:
            return {}
        return {
            resource.id: resource.spec
            for resource in operators
            if resource.metadata.phase is Phase.RUNNING
            and resource.spec.operator == enums_pb2.OPERATOR_VIP
            and resource.spec.link_name in up
        }

    async def _take_part(self, runtime: ControllerRuntime, candidacy: _Candidacy, candidate: str) -> None:
        address = ip_address(candidacy.spec.vip.ip.ip)

        async def report(is_leader: bool) -> None:
            if is_leader and candidacy.spec.vip.HasField("h_cloud"):
                await self._move(runtime, address)
            candidacy.is_leader = is_leader
            self._log.info(f"virtual address {address} is {'on this node' if is_leader else 'given up'}")
            await self._write(runtime)

        election = Election(f"{KEY}{address}".encode(), candidate, self._open_store, report, self._log)
        try:
            with candidacy.scope:
                await election.run()
        finally:
            self._unended.discard(candidacy)
            candidacy.ended.set()

    async def _move(self, runtime: ControllerRuntime, address: IPv4Address | IPv6Address) -> None:
        """Have the cloud lead an address to this node; CloudError, with which the election is given up."""
        config = await read_config(runtime)
        token = effective.hcloud_tokens(config).get(str(address), "") if config else ""
        try:
            await self._take(token, address)
        except CloudError as error:
            text = f"virtual address {address} is not had from the cloud: {error}"
            self._log.once(text, key=f"cloud {address}", level="error")
            raise

    async def _write(self, runtime: ControllerRuntime) -> None:
        """Write the addresses of the elections that are won."""
        wanted = {
            f"operator/{name}": make_address(candidacy.spec)
            for name, candidacy in self._running.items()
            if candidacy.is_leader
        }
        for spec_id, spec in wanted.items():
            await runtime.put(kinds.ADDRESS_SPEC, spec_id, spec, namespace=ids.NETWORK_CONFIG)
        for resource in await runtime.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG):
            if resource.metadata.owner == self.name and resource.id not in wanted:
                await runtime.remove(kinds.ADDRESS_SPEC, resource.id, namespace=ids.NETWORK_CONFIG)


def make_address(spec: OperatorSpecSpec) -> AddressSpecSpec:
    """The virtual address, alone in its network."""
    address = ip_address(spec.vip.ip.ip)
    is_four = address.version == 4
    return AddressSpecSpec(
        address=make_host_prefix(address),
        link_name=spec.link_name,
        family=enums_pb2.FAMILY_INET4 if is_four else enums_pb2.FAMILY_INET6,
        scope=enums_pb2.SCOPE_GLOBAL,
        # Looking for duplicates would take a second in which no node has the address.
        flags=enums_pb2.ADDRESS_PERMANENT | (0 if is_four else enums_pb2.ADDRESS_NO_DAD),
        announce_with_arp=spec.vip.gratuitous_arp,
        config_layer=enums_pb2.CONFIG_OPERATOR,
    )
