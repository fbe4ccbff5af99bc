"""Whether the link to the management service is one: by its last handshake."""

import trio
import trio.testing
from trio.testing import MockClock

from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.api.definitions.siderolink_pb2 import ConfigSpec, StatusSpec
from talos.networkd.controllers.siderolink import (
    CONNECTING_INTERVAL,
    INTERVAL,
    SiderolinkStatusController,
)
from talos.networkd.wireguard import PEER_DOWN_INTERVAL
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.net.wireguard import WireguardState, WireguardTraffic
from talos.testing.links import MemoryLinks


class Tunnel(MemoryLinks):
    """A kernel whose link has had a handshake, or none."""

    last_handshake = 0.0

    async def wireguard(self, name: str) -> WireguardState:
        assert name == "siderolink"
        return WireguardState(traffic={"key": WireguardTraffic(last_handshake=self.last_handshake)})


async def test_a_link_is_connected_while_handshakes_come(autojump_clock: MockClock) -> None:
    del autojump_clock
    state, links, begin = MemoryState(), Tunnel([]), trio.current_time()

    def clock() -> float:
        return 1_700_000_000 + trio.current_time() - begin

    async def find_status() -> StatusSpec:
        await trio.testing.wait_all_tasks_blocked()
        return (await state.get(*ids.SIDEROLINK_STATUS)).spec

    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [SiderolinkStatusController(links, clock)])
        await put(state, *ids.SIDEROLINK_CONFIG, ConfigSpec(host="[2001:db8::1]:443", join_token="x"))
        down = StatusSpec(host="2001:db8::1", link_name="siderolink")
        assert await find_status() == down
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > INTERVAL, "it waits for a link"
        await put(state, kinds.LINK_STATUS, "siderolink", LinkStatusSpec(kind="wireguard"))
        assert await find_status() == down
        links.last_handshake = clock()
        await trio.sleep(CONNECTING_INTERVAL)
        assert await find_status() == StatusSpec(host="2001:db8::1", link_name="siderolink", connected=True)
        await trio.sleep(PEER_DOWN_INTERVAL)
        assert await find_status() == down
        await destroy_if_present(state, *ids.SIDEROLINK_CONFIG)
        await trio.testing.wait_all_tasks_blocked()
        assert await state.list(kinds.SIDEROLINK_STATUS) == []
        nursery.cancel_scope.cancel()
