"""A node all of whose addresses are Kubernetes' own is shown to be one, once that lasts."""

from ipaddress import ip_interface

import trio
import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.machined.controllers.k8s.address_overlap import AddressOverlapController
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

CONFIG = b"""\
version: v1alpha1
machine: {type: worker}
cluster: {network: {podSubnets: [10.5.0.0/16], serviceSubnets: [10.96.0.0/12]}}
"""


def make_addresses(*texts: str) -> NodeAddressSpec:
    return NodeAddressSpec(addresses=[make_prefix(ip_interface(text)) for text in texts])


async def test_an_overlap_that_lasts_is_named(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    state = MemoryState()
    await publish_config(state, ids.MACHINE_CONFIG, CONFIG)
    await put(state, *ids.NODE_ADDRESS_ROUTED, make_addresses("10.5.0.2/24"))
    await put(state, *ids.NODE_ADDRESS_ROUTED_NO_K8S, make_addresses())
    async with running(state, AddressOverlapController()):
        await trio.sleep(20)
        assert not await state.list(kinds.DIAGNOSTIC)
        await trio.sleep(20)
        (found,) = await state.list(kinds.DIAGNOSTIC)
        assert found.id == "address-overlap"
        assert list(found.spec.details) == [
            'host routed addresses: ["10.5.0.2/24"]',
            'Kubernetes pod CIDRs: ["10.5.0.0/16"]',
            'Kubernetes service CIDRs: ["10.96.0.0/12"]',
        ]
        await put(state, *ids.NODE_ADDRESS_ROUTED_NO_K8S, make_addresses("192.168.0.2/24"))
        await trio.sleep(1)
        assert not await state.list(kinds.DIAGNOSTIC)
