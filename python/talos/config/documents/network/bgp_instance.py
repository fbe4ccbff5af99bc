"""``BGPInstanceConfig``: a BGP speaker of the node and its neighbours."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT8, UINT32, Document, Merge, Section, setting
from talos.config.values import Address, Duration, Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class BGPImportRoute(Section):
    """Routes taken from other instances."""

    bgp_instance: str = setting("the other instance", default="")
    prefixes: tuple[Prefix, ...] = setting("prefixes", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BGPBFDConfig(Section):
    """Fast detection of failures."""

    transmit_interval: Duration | None = setting("time between packets sent")
    receive_interval: Duration | None = setting("time between packets expected")
    detect_multiplier: int | None = setting("lost packets that count as failure", bounds=UINT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class BGPNeighborConfig(Section):
    """Neighbours."""

    address: Address | None = setting("the neighbour's address")
    link: str | None = setting("link where the neighbour is found")
    peer_asn: int | None = setting("the neighbour's autonomous system number", key="peerASN", bounds=UINT32)
    local_asn: int | None = setting("own autonomous system number", key="localASN", bounds=UINT32)
    passive: bool | None = setting("wait for the neighbour to connect")
    hold_time: Duration | None = setting("time without messages until a neighbour counts as down")
    bfd: BGPBFDConfig | None = setting("fast detection of failures")


@dataclass(frozen=True, slots=True, kw_only=True)
class BGPInstanceConfig(Document):
    """A BGP speaker of the node and its neighbours."""

    kind: ClassVar[str] = "BGPInstanceConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the instance", default="")
    vrf: str | None = setting("VRF of the instance")
    local_asn: int = setting("own autonomous system number", key="localASN", default=0, bounds=UINT32)
    router_id: Address | None = setting("router id", key="routerID")
    route_source: Address | None = setting("source address of learnt routes")
    advertise: tuple[str, ...] | None = setting("links whose addresses are announced", merge=Merge.REPLACE)
    multipath: bool | None = setting("use several equal routes (default: false)")
    max_paths: int | None = setting("largest number of paths", bounds=UINT8)
    install_routes: bool | None = setting("put learnt routes into the kernel (default: true)")
    import_routes: tuple[BGPImportRoute, ...] | None = setting(
        "routes taken from other instances", merge=Merge.REPLACE
    )
    neighbors: tuple[BGPNeighborConfig, ...] | None = setting("neighbours", merge=Merge.REPLACE)
