"""Events about the machine's addresses."""

import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec
from talos.api.machine.machine_pb2 import AddressEvent
from talos.machined.controllers.network.address_event import REPEAT, AddressEventController
from talos.resource import ids
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


async def test_an_event_for_every_change(autojump_clock: object) -> None:
    del autojump_clock
    state, published = MemoryState(), list[Message]()
    address = NetIPPrefix(ip=bytes([10, 5, 0, 2]), prefix_length=24)
    plain = AddressEvent(addresses=["10.5.0.2"])
    named = AddressEvent(hostname="one", addresses=["10.5.0.2"])

    def set_addresses(spec: NodeAddressSpec) -> None:
        spec.addresses.append(address)

    def set_name(spec: HostnameStatusSpec) -> None:
        spec.hostname = "one"

    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [AddressEventController(published.append)])
        await modify(state, *ids.NODE_ADDRESS_CURRENT, set_addresses)
        await trio.sleep(1)
        assert published == [plain]
        await modify(state, *ids.HOSTNAME_STATUS, set_name)
        await trio.sleep(1)
        assert published == [plain, named]
        await trio.sleep(REPEAT)
        assert published == [plain, named, named]
        nursery.cancel_scope.cancel()
