"""Bonds in ``machine.network``."""

from dataclasses import dataclass

from talos.config.documents.v1alpha1.device_selector import NetworkDeviceSelector
from talos.config.schema import UINT8, UINT16, UINT32, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Bond(Section):
    """Settings of a bond."""

    interfaces: tuple[str, ...] = setting("links of the bond", default=())
    device_selectors: tuple[NetworkDeviceSelector, ...] | None = setting(
        "links of the bond, by their properties"
    )
    arp_ip_target: tuple[str, ...] | None = setting("targets of ARP monitoring", key="arpIPTarget")
    mode: str = setting("how links are used", default="")
    xmit_hash_policy: str | None = setting("how packets are distributed to links")
    lacp_rate: str | None = setting("requested rate of LACP packets")
    ad_actor_system: str | None = setting("LACP system address")
    arp_validate: str | None = setting("which ARP replies count")
    arp_all_targets: str | None = setting("whether any or all targets must answer")
    primary: str | None = setting("preferred link")
    primary_reselect: str | None = setting("when to go back to the preferred link")
    fail_over_mac: str | None = setting("link-layer address after a failure")
    ad_select: str | None = setting("how LACP picks an aggregator")
    miimon: int | None = setting("milliseconds between checks of the links", bounds=UINT32)
    updelay: int | None = setting("milliseconds before a link counts as up", bounds=UINT32)
    downdelay: int | None = setting("milliseconds before a link counts as down", bounds=UINT32)
    arp_interval: int | None = setting("milliseconds between ARP probes", bounds=UINT32)
    resend_igmp: int | None = setting("IGMP reports after a failure", bounds=UINT32)
    min_links: int | None = setting("links needed for the bond to be up", bounds=UINT32)
    lp_interval: int | None = setting("seconds between learning packets", bounds=UINT32)
    packets_per_slave: int | None = setting("packets before the next link is used", bounds=UINT32)
    num_peer_notif: int | None = setting("notifications to peers after a failure", bounds=UINT8)
    tlb_dynamic_lb: int | None = setting("move flows by load", bounds=UINT8)
    all_slaves_active: int | None = setting("accept packets on inactive links", bounds=UINT8)
    use_carrier: bool | None = setting("trust the driver's carrier state")
    ad_actor_sys_prio: int | None = setting("LACP system priority", bounds=UINT16)
    ad_user_port_key: int | None = setting("LACP user key of ports", bounds=UINT16)
    peer_notify_delay: int | None = setting("milliseconds between notifications", bounds=UINT32)
