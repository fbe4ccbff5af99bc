"""Which state a peer has, and when another of its endpoints is tried."""

from dataclasses import dataclass, field
from ipaddress import ip_address

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import PeerSpecSpec, PeerStatusSpec
from talos.networkd.kubespan.peers import KernelPeer, find_endpoint, find_status
from talos.system.net.wireguard import WireguardTraffic

UNKNOWN, UP, DOWN = enums.PEER_STATE_UNKNOWN, enums.PEER_STATE_UP, enums.PEER_STATE_DOWN
START = 1_700_000_000.0


def place(number: int) -> NetIPPort:
    return NetIPPort(ip=ip_address(f"192.0.2.{number}").packed, port=51820)


@dataclass
class Peer:
    """A peer over time; the kernel sends to the endpoint that was set last, unless the peer has moved."""

    endpoints: list[NetIPPort]
    status: PeerStatusSpec = field(default_factory=PeerStatusSpec)
    kernel: NetIPPort | None = None
    now: float = START
    handshake: float = 0.0

    def check(self, later: float = 0.0) -> tuple[int, NetIPPort | None]:
        """State, and what WireGuard is given, after so many seconds."""
        self.now += later
        traffic = WireguardTraffic(last_handshake=self.handshake, received=7, sent=9)
        seen = KernelPeer(endpoint=self.kernel, traffic=traffic)
        spec = PeerSpecSpec(label="node", endpoints=self.endpoints)
        self.status = find_status(spec, self.status, seen, self.now)
        given = find_endpoint(self.status, seen)
        self.kernel = given or self.kernel
        return int(self.status.state), given


def test_endpoints_take_turns_until_a_handshake() -> None:
    peer = Peer([place(1), place(2)])
    assert peer.check() == (UNKNOWN, place(1))
    assert peer.check(10) == (UNKNOWN, place(1)), "a handshake takes a moment"
    assert peer.check(20) == (UNKNOWN, place(2)), "no handshake in 15 s"
    assert peer.check(30) == (UNKNOWN, place(1)), "after the last the first again"
    peer.handshake = peer.now + 1
    assert peer.check(30) == (UP, place(1))
    assert (peer.status.label, peer.status.receive_bytes, peer.status.transmit_bytes) == ("node", 7, 9)


def test_a_peer_is_down_after_275_seconds_of_silence() -> None:
    peer = Peer([place(1), place(2)])
    peer.check()
    peer.handshake = START + 400
    assert peer.check(600)[0] == UP
    assert peer.check(74)[0] == UP
    assert peer.check(2) == (UNKNOWN, place(2)), "the next endpoint's turn"


def test_a_peer_that_has_moved_is_reached_where_it_is() -> None:
    peer = Peer([place(1)])
    peer.check()
    peer.kernel, peer.handshake = place(9), START + 5
    assert peer.check(30) == (UP, None)
    assert (peer.status.endpoint, peer.status.last_used_endpoint) == (place(9), place(1))
    assert peer.check(300) == (UNKNOWN, place(1)), "and where it was to be, when it is silent"
    assert peer.check(30) == (DOWN, place(1))
    assert peer.check(30) == (DOWN, place(1)), "the only endpoint stays"


def test_a_change_that_the_kernel_has_not_made_yet_is_not_lost() -> None:
    peer = Peer([place(1), place(2)])
    peer.check()
    peer.check(30)
    peer.kernel = place(1)
    assert peer.check(1) == (UNKNOWN, place(2))


def test_a_peer_without_endpoints_is_unknown_until_it_calls() -> None:
    peer = Peer([])
    assert peer.check() == (UNKNOWN, None)
    assert peer.check(1000) == (UNKNOWN, None)
    peer.kernel, peer.handshake = place(9), peer.now
    assert peer.check(10) == (UP, None)
    peer.endpoints = [place(1)]
    assert peer.check(10) == (UP, None), "what works is not replaced"
    assert peer.check(300) == (UNKNOWN, place(1))


def test_an_endpoint_that_is_announced_no_more_gives_way_to_the_first() -> None:
    peer = Peer([place(3)])
    peer.check()
    peer.endpoints = [place(1), place(2)]
    assert peer.check(5) == (UNKNOWN, place(3)), "it may work yet"
    assert peer.check(30) == (UNKNOWN, place(1))


def test_a_clock_that_is_set_back_does_not_stop_the_turns() -> None:
    peer = Peer([place(1), place(2)])
    peer.check()
    assert peer.check(-86400) == (UNKNOWN, place(1))
    assert peer.check(30) == (UNKNOWN, place(2))
