"""A neighbour that makes connection after connection, and sends what is wrong in ever new ways."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import cast

import pytest
import trio
import trio.testing

from talos.bgpd.bfd.port import BfdPort
from talos.bgpd.connection import Connection
from talos.bgpd.messages.update import Update
from talos.bgpd.neighbor import ACCEPT_INTERVAL, Neighbor
from talos.bgpd.rib.paths import Source
from talos.bgpd.rib.table import Rib
from talos.bgpd.session import Session, SessionSettings
from talos.bgpd.settings import Identity, InstanceSettings, NeighborSettings
from talos.system.logging import Log
from talos.system.net.links import Interface

ID = IPv4Address("10.0.0.2")
PEER = IPv4Address("10.0.0.1")
NEIGHBOR = NeighborSettings(
    address=PEER,
    link="eth0",
    peer_asn=65001,
    local_asn=65001,
    hold_time=90,
    is_passive=True,
    replaces_peer=False,
    bfd=None,
)


@dataclass
class Instance:
    """An instance with one neighbour."""

    settings: InstanceSettings = field(
        default_factory=lambda: InstanceSettings(
            name="fabric",
            identity=Identity(
                local_asn=65001, router_id=ID, is_multipath=False, max_paths=1, vrf="", table=254
            ),
            sources=cast("Mapping[int, IPv4Address]", {}),
            has_routes=True,
            networks=frozenset(),
            addresses=cast("tuple[tuple[str, Interface], ...]", ()),
            neighbors=(NEIGHBOR,),
            imports=(),
        )
    )
    rib: Rib = field(default_factory=Rib)
    lines: list[str] = field(default_factory=list[str])

    def notify(self) -> None:
        """Nothing waits for it."""

    def make_neighbor(self) -> Neighbor:
        log = Log(write=lambda line: self.lines.append(json.loads(line)["msg"]))
        return Neighbor(NEIGHBOR, self, BfdPort(log), log)


def make_stream() -> tuple[trio.SocketStream, trio.testing.MemoryReceiveStream]:
    """The node's end of a connection, and what the peer gets of it."""
    own, peer = trio.testing.memory_stream_pair()
    return cast("trio.SocketStream", own), cast("trio.testing.MemoryReceiveStream", peer)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_peer_that_connects_all_the_time_is_taken_once_a_second() -> None:
    neighbor = Instance().make_neighbor()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbor.run)
        await trio.testing.wait_all_tasks_blocked()
        taken = 0
        began = trio.current_time()
        while trio.current_time() < began + 10 * ACCEPT_INTERVAL:
            own, peer = make_stream()
            taken += neighbor.accept(own)
            await peer.aclose()
            await trio.sleep(ACCEPT_INTERVAL / 10)
        assert 5 <= taken <= 11
        nursery.cancel_scope.cancel()


async def test_malformed_updates_of_a_session_are_one_line() -> None:
    instance = Instance()
    neighbor = instance.make_neighbor()
    own, _ = make_stream()
    settings = SessionSettings(local_asn=65001, peer_asn=65001, router_id=ID, hold_time=90)
    connection = Connection(own, Session(settings, 0.0), is_own=False)
    connection.source = Source(number=1, address=PEER, router_id=PEER, is_internal=True)
    instance.rib.add_source(connection.source)
    for number in range(100):
        neighbor.handle(connection, Update(problem=f"ORIGIN is {number:016x}"))
    assert len(instance.lines) == 1
    assert "ORIGIN is 0000000000000000" in instance.lines[0]
