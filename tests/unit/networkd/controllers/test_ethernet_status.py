"""What drivers report, the first hardware address, and routing rules."""

import trio

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.networkd.controllers.ethernet_status import (
    EthernetStatusController,
    HardwareAddrController,
    make_status,
)
from talos.networkd.controllers.kernel_status import make_kernel_status_controllers
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.ethtool import Counts, DriverState, Feature
from talos.testing.links import MemoryLinks

STATE = DriverState(
    has_link=True,
    speed=1000,
    port=0,
    duplex=1,
    own_modes=("1000baseT/Full",),
    wake_on=1 << 5,
    rings=Counts(maximum=(256, 0, 0, 512), current=(128, 0, 0, 64)),
    features=(Feature(name="tx-lro", is_active=False, is_fixed=True),),
)


async def test_statuses() -> None:
    state, ether = MemoryState(), enums_pb2.LINK_ETHER
    await put(state, kinds.LINK_STATUS, "br0", LinkStatusSpec(type=ether, kind="bridge"))
    await put(state, kinds.LINK_STATUS, "eth0", LinkStatusSpec(type=ether, kind="veth", hardware_addr=b"v"))
    await put(state, kinds.LINK_STATUS, "lo", LinkStatusSpec(type=enums_pb2.LINK_LOOPBCK))
    links = MemoryLinks([])
    controllers = [
        EthernetStatusController(links, Log()),
        HardwareAddrController(),
        *make_kernel_status_controllers(links, Log()),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        await wait_for(state, kinds.ETHERNET_STATUS, "eth0", lambda _: True)
        await wait_for(state, kinds.ROUTING_RULE_STATUS, "inet4/32767", lambda _: True)
        await wait_for(state, *ids.HARDWARE_ADDRESS_FIRST, lambda first: first.spec.name == "eth0")
        # A device goes before the end of a virtual cable.
        await put(state, kinds.LINK_STATUS, "eth1", LinkStatusSpec(type=ether, hardware_addr=b"d"))
        await wait_for(state, *ids.HARDWARE_ADDRESS_FIRST, lambda first: first.spec.name == "eth1")
        nursery.cancel_scope.cancel()
    status = (await state.get(kinds.ETHERNET_STATUS, "eth0")).spec
    assert (status.speed_megabits, status.port, status.duplex) == (
        1000,
        enums_pb2.TWISTED_PAIR,
        enums_pb2.FULL,
    )
    assert list(status.wake_on_lan) == [enums_pb2.WOL_MODE_MAGIC]
    rules = [rule.id for rule in await state.list(kinds.ROUTING_RULE_STATUS)]
    assert rules == ["inet4/00000", "inet4/32766", "inet4/32767"]


def test_all_that_a_driver_reports() -> None:
    status = make_status(STATE)
    assert (status.rings.rx, status.rings.tx_max) == (128, 512)
    assert status.features[0].status == "off [fixed]"
    assert list(status.our_modes) == ["1000baseT/Full"]
