"""The attributes with which the kernel makes a link, by the names that pyroute2 has for them."""

from ipaddress import IPv6Address
from typing import Any

from talos.api.definitions.network_pb2 import BondMasterSpec, LinkSpecSpec
from talos.networkd.addresses import parse_ip

# The spec's fields that go to the kernel as they are, with the kernel's names; and the
# modes in which the driver accepts a setting, where it refuses it in others.
_BOND_ATTRIBUTES = {
    "hash_policy": "xmit_hash_policy",
    "mii_mon": "miimon",
    "up_delay": "updelay",
    "down_delay": "downdelay",
    "arp_interval": "arp_interval",
    "arp_validate": "arp_validate",
    "arp_all_targets": "arp_all_targets",
    "primary_reselect": "primary_reselect",
    "fail_over_mac": "fail_over_mac",
    "min_links": "min_links",
    "all_slaves_active": "all_slaves_active",
    "num_peer_notif": "num_peer_notif",
    "resend_igmp": "resend_igmp",
    "ad_select": "ad_select",
    "lacp_rate": "ad_lacp_rate",
    "ad_actor_sys_prio": "ad_actor_sys_prio",
    "ad_user_port_key": "ad_user_port_key",
    "packets_per_slave": "packets_per_slave",
    "lp_interval": "lp_interval",
    "tlb_dynamic_lb": "tlb_dynamic_lb",
}
_DEFAULTS = {
    "num_peer_notif": 1,
    "resend_igmp": 1,
    "packets_per_slave": 1,
    "lp_interval": 1,
    "tlb_dynamic_lb": 1,
}


def make_link_attributes(spec: LinkSpecSpec, parent_index: int) -> dict[str, Any]:
    """The settings of a link that is only logical."""
    attributes: dict[str, Any] = {"kind": spec.kind}
    if parent_index:
        attributes["link"] = parent_index
    if spec.kind == "vlan":
        attributes |= {"vlan_id": spec.vlan.vid, "vlan_protocol": int(spec.vlan.protocol)}
    elif spec.kind == "bond":
        attributes |= make_bond_attributes(spec.bond_master)
    elif spec.kind == "bridge":
        attributes["br_stp_state"] = int(spec.bridge_master.stp.enabled)
        if spec.bridge_master.vlan.filtering_enabled:
            attributes["br_vlan_filtering"] = 1
    elif spec.kind == "vrf":
        attributes["vrf_table"] = int(spec.vrf_master.table)
    elif spec.kind == "veth":
        attributes["peer"] = {"ifname": spec.veth.peer_name}
    return attributes


def make_bond_attributes(spec: BondMasterSpec) -> dict[str, Any]:
    """A bond's settings, without those that are the kernel's own: it refuses some in some modes."""
    attributes: dict[str, Any] = {"bond_mode": int(spec.mode)}
    for field, name in _BOND_ATTRIBUTES.items():
        value = int(getattr(spec, field))
        if value == _DEFAULTS.get(field, 0) or (field == "ad_actor_sys_prio" and value == 65535):
            continue
        attributes[f"bond_{name}"] = value
    targets = [str(target) for item in spec.arpip_targets if (target := parse_ip(item)) is not None]
    if targets:
        attributes["bond_arp_ip_target"] = targets
    six = [target for item in spec.nsip6_targets if isinstance(target := parse_ip(item), IPv6Address)]
    if six:
        attributes["bond_ns_ip6_target"] = [str(target) for target in six]
    return attributes
