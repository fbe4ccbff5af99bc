"""Whether a peer of KubeSpan is reached, and which of its endpoints is tried next.

A peer has several endpoints, of which some lead nowhere from here. One is given to WireGuard; when no
handshake has come for a while, it is the next one's turn. An endpoint that a peer has sent from precedes all
that it announces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import PeerSpecSpec, PeerStatusSpec
from talos.api.timestamps import make_timestamp
from talos.networkd.wireguard import PEER_DOWN_INTERVAL
from talos.system.net.wireguard import WireguardPeer, WireguardTraffic

ENDPOINT_TIMEOUT = 15
"""Seconds for the first handshake at another endpoint, as upstream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPeer:
    """What the kernel has of a peer."""

    endpoint: NetIPPort | None = None
    traffic: WireguardTraffic = field(default_factory=WireguardTraffic)


def make_kernel_peer(peer: WireguardPeer | None, traffic: WireguardTraffic | None) -> KernelPeer:
    """The same as the API has it."""
    endpoint = None
    if peer is not None and peer.endpoint is not None:
        address, port = peer.endpoint
        endpoint = NetIPPort(ip=address.packed, port=port)
    return KernelPeer(endpoint=endpoint, traffic=traffic or WireguardTraffic())


def find_status(spec: PeerSpecSpec, last: PeerStatusSpec, seen: KernelPeer, now: float) -> PeerStatusSpec:
    """The peer's status, in which ``last_used_endpoint`` is another one when it is the next one's turn.

    ``last`` is empty at first; ``now`` is in seconds since the epoch, as the kernel's times of handshakes.
    """
    status = PeerStatusSpec(
        endpoint=seen.endpoint,
        label=spec.label,
        receive_bytes=seen.traffic.received,
        transmit_bytes=seen.traffic.sent,
        last_used_endpoint=last.last_used_endpoint if last.last_used_endpoint.ip else None,
    )
    if seen.traffic.last_handshake:
        status.last_handshake_time.CopyFrom(make_timestamp(seen.traffic.last_handshake))
    changed = _read_time(last.last_endpoint_change)
    if changed:
        # The clock was set back: what lies in the future would not pass for as long.
        changed = min(changed, now)
        status.last_endpoint_change.CopyFrom(make_timestamp(changed))
    status.state = _find_state(status, changed, now)
    chosen = _choose(spec.endpoints, status)
    if chosen is not None:
        status.endpoint.CopyFrom(chosen)
        status.last_used_endpoint.CopyFrom(chosen)
        status.last_endpoint_change.CopyFrom(make_timestamp(now))
        status.state = enums.PEER_STATE_UNKNOWN
    return status


def find_endpoint(status: PeerStatusSpec, seen: KernelPeer) -> NetIPPort | None:
    """What WireGuard is to be given; None for a peer that has sent from another place since."""
    used = status.last_used_endpoint
    if not used.ip:
        return None
    has_moved = seen.endpoint is not None and seen.endpoint != used
    if has_moved and seen.traffic.last_handshake > _read_time(status.last_endpoint_change):
        return None
    return used


def _find_state(status: PeerStatusSpec, changed: float, now: float) -> enums.KubespanPeerState:
    handshake = _read_time(status.last_handshake_time)
    if now > changed + PEER_DOWN_INTERVAL:
        is_up = now - handshake < PEER_DOWN_INTERVAL
    else:
        is_up = handshake > changed
    if is_up:
        return enums.PEER_STATE_UP
    if now < changed + ENDPOINT_TIMEOUT or not (status.last_used_endpoint.ip or status.endpoint.ip):
        return enums.PEER_STATE_UNKNOWN
    return enums.PEER_STATE_DOWN


def _choose(endpoints: Sequence[NetIPPort], status: PeerStatusSpec) -> NetIPPort | None:
    """The endpoint to change to; None to stay."""
    used = status.last_used_endpoint
    # A peer that has sent first is reached where it is, whatever endpoints it has.
    if status.state == enums.PEER_STATE_UP or (used.ip and status.state != enums.PEER_STATE_DOWN):
        return None
    if not endpoints:
        return None
    if used not in endpoints:
        return endpoints[0]
    chosen = endpoints[(list(endpoints).index(used) + 1) % len(endpoints)]
    return None if chosen == used == status.endpoint else chosen


def _read_time(time: Timestamp) -> float:
    """In seconds; 0 for none."""
    return time.ToNanoseconds() / 1e9
