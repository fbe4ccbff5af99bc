"""``BondConfig``: several links used as one."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT8, UINT16, UINT32, Document, setting
from talos.config.values import Address, HardwareAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class BondConfig(Document):
    """Several links used as one."""

    kind: ClassVar[str] = "BondConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the bond link", default="")
    hardware_addr: HardwareAddress | None = setting("link-layer address")
    links: tuple[str, ...] = setting("its links", default=())
    bond_mode: str | None = setting(
        "how links are used (default: balance-rr)",
        allowed=(
            "balance-rr",
            "active-backup",
            "balance-xor",
            "broadcast",
            "802.3ad",
            "balance-tlb",
            "balance-alb",
        ),
    )
    miimon: int | None = setting("milliseconds between checks of the links", bounds=UINT32)
    updelay: int | None = setting("milliseconds before a link counts as up", bounds=UINT32)
    downdelay: int | None = setting("milliseconds before a link counts as down", bounds=UINT32)
    use_carrier: bool | None = setting("trust the driver's carrier state")
    xmit_hash_policy: str | None = setting(
        "how packets are spread over links",
        allowed=("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"),
    )
    arp_interval: int | None = setting("milliseconds between ARP probes", bounds=UINT32)
    arp_ip_targets: tuple[Address, ...] | None = setting("targets of ARP monitoring")
    ns_ip6_targets: tuple[Address, ...] | None = setting("targets of monitoring by neighbour discovery")
    arp_validate: str | None = setting(
        "which ARP replies count",
        allowed=("none", "active", "backup", "all", "filter", "filter-active", "filter-backup"),
    )
    arp_all_targets: str | None = setting("whether any or all targets must answer", allowed=("any", "all"))
    lacp_rate: str | None = setting("requested rate of LACP packets", allowed=("slow", "fast"))
    fail_over_mac: str | None = setting(
        "which link-layer address is used after a failure", allowed=("none", "active", "follow")
    )
    ad_select: str | None = setting("how LACP picks an aggregator", allowed=("stable", "bandwidth", "count"))
    ad_actor_sys_prio: int | None = setting("LACP system priority", bounds=UINT16)
    ad_user_port_key: int | None = setting("LACP user key of ports", bounds=UINT16)
    ad_lacp_active: str | None = setting(
        "whether LACP speaks first", key="adLACPActive", allowed=("on", "off")
    )
    primary: str | None = setting("preferred link")
    primary_reselect: str | None = setting(
        "when to go back to the preferred link", allowed=("always", "better", "failure")
    )
    resend_igmp: int | None = setting("IGMP reports after a failure", key="resendIGMP", bounds=UINT32)
    min_links: int | None = setting("links needed for the bond to be up", bounds=UINT32)
    lp_interval: int | None = setting("seconds between learning packets", bounds=UINT32)
    packets_per_slave: int | None = setting("packets before the next link is used", bounds=UINT32)
    num_peer_notif: int | None = setting("notifications to peers after a failure", bounds=UINT8)
    tlb_logical_lb: int | None = setting("move flows by load", bounds=UINT8)
    all_slaves_active: int | None = setting("accept packets on inactive links", bounds=UINT8)
    peer_notif_delay: int | None = setting("milliseconds between notifications", bounds=UINT32)
    missed_max: int | None = setting("missed probes that count as failure", bounds=UINT8)
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
