"""Affiliates as nodes publish them, from and to the resource.

Members of the cluster have written what is read here, but through a server, and maybe with another version:
what is out of bounds is left out.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, MutableSequence, Sequence

from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery import affiliate_pb2 as wire

MAX_ADDRESSES = 64
"""Addresses, prefixes and endpoints that are kept of one node, of each kind."""

_NODE_ID = re.compile(r"[!-~]{1,256}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
_TEXT = re.compile(r"[ -~]{0,128}")

_TYPES = {
    "init": enums.TYPE_INIT,
    "controlplane": enums.TYPE_CONTROL_PLANE,
    "worker": enums.TYPE_WORKER,
    "join": enums.TYPE_WORKER,
}
_TYPE_NAMES = {
    enums.TYPE_INIT: "init",
    enums.TYPE_CONTROL_PLANE: "controlplane",
    enums.TYPE_WORKER: "worker",
}


def is_node_id(text: str) -> bool:
    """Whether this can be the id of a node."""
    return _NODE_ID.fullmatch(text) is not None


def make_payload(spec: AffiliateSpec) -> tuple[wire.Affiliate, list[wire.Endpoint]]:
    """What a node publishes about itself: its data and its endpoints for KubeSpan."""
    payload = wire.Affiliate(
        node_id=spec.node_id,
        addresses=[address.ip for address in spec.addresses],
        hostname=spec.hostname,
        nodename=spec.nodename,
        machine_type=_TYPE_NAMES.get(spec.machine_type, "unknown"),
        operating_system=spec.operating_system,
    )
    if spec.HasField("control_plane"):
        payload.control_plane.api_server_port = spec.control_plane.api_server_port
    kubespan = spec.kube_span
    if not kubespan.public_key:
        return payload, []
    payload.kubespan.public_key = kubespan.public_key
    payload.kubespan.address = kubespan.address.ip
    for prefix in kubespan.additional_addresses:
        payload.kubespan.additional_addresses.add(ip=prefix.ip, bits=prefix.prefix_length)
    for prefix in kubespan.exclude_advertised_networks:
        payload.kubespan.exclude_advertised_addresses.add(ip=prefix.ip, bits=prefix.prefix_length)
    return payload, [wire.Endpoint(ip=one.ip, port=one.port) for one in kubespan.endpoints]


def parse_payload(payload: wire.Affiliate, endpoints: Iterable[wire.Endpoint]) -> AffiliateSpec:
    """The resource of what another node has published."""
    spec = AffiliateSpec(
        node_id=payload.node_id,
        addresses=[NetIP(ip=ip) for ip in _addresses(payload.addresses)],
        hostname=_match(_NAME, payload.hostname),
        nodename=_match(_NAME, payload.nodename),
        operating_system=_match(_TEXT, payload.operating_system),
        machine_type=_TYPES.get(payload.machine_type, enums.TYPE_UNKNOWN),
    )
    port = payload.control_plane.api_server_port
    if 0 < port < 1 << 16:
        spec.control_plane.api_server_port = port
    if payload.kubespan.public_key:
        kubespan = spec.kube_span
        kubespan.public_key = _match(_TEXT, payload.kubespan.public_key)
        kubespan.address.CopyFrom(NetIP(ip=next(_addresses([payload.kubespan.address]), b"")))
        kubespan.additional_addresses.extend(
            prefix for prefix in _prefixes(payload.kubespan.additional_addresses) if is_address(prefix.ip)
        )
        kubespan.exclude_advertised_networks.extend(_prefixes(payload.kubespan.exclude_advertised_addresses))
        # Others can add endpoints, the node alone its addresses: those come first, and are always kept.
        own = {one.ip for one in spec.addresses}
        usable = [one for one in endpoints if is_address(one.ip) and 0 < one.port < 1 << 16]
        usable.sort(key=lambda one: one.ip not in own)
        kubespan.endpoints.extend(NetIPPort(ip=one.ip, port=one.port) for one in usable[:MAX_ADDRESSES])
    return spec


def merge_affiliate(into: AffiliateSpec, other: AffiliateSpec) -> None:
    """Add what another source has about the same node; what is there stays."""
    _add(into.addresses, other.addresses)
    for name in ("hostname", "nodename", "operating_system", "machine_type"):
        if not getattr(into, name):
            setattr(into, name, getattr(other, name))
    if not into.HasField("control_plane") and other.HasField("control_plane"):
        into.control_plane.CopyFrom(other.control_plane)
    if not into.kube_span.public_key and other.kube_span.public_key:
        into.kube_span.CopyFrom(other.kube_span)
    elif into.kube_span.public_key == other.kube_span.public_key:
        _add(into.kube_span.additional_addresses, other.kube_span.additional_addresses)
        _add(into.kube_span.endpoints, other.kube_span.endpoints)
        _add(into.kube_span.exclude_advertised_networks, other.kube_span.exclude_advertised_networks)


def _add[M: (NetIP, NetIPPort, NetIPPrefix)](into: MutableSequence[M], others: Iterable[M]) -> None:
    for other in others:
        if other not in into and len(into) < MAX_ADDRESSES:
            into.append(other)


def _addresses(packed: Sequence[bytes]) -> Iterator[bytes]:
    return iter([one for one in packed if is_address(one)][:MAX_ADDRESSES])


def _prefixes(prefixes: Sequence[wire.IPPrefix]) -> Iterator[NetIPPrefix]:
    for prefix in prefixes[:MAX_ADDRESSES]:
        if len(prefix.ip) in {4, 16} and prefix.bits <= 8 * len(prefix.ip):
            yield NetIPPrefix(ip=prefix.ip, prefix_length=prefix.bits)


def is_address(packed: bytes) -> bool:
    """Whether another node can have this address, and be reached by it from any link."""
    if len(packed) not in {4, 16}:
        return False
    address = ipaddress.ip_address(packed)
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _match(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""
