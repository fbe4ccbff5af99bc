"""The settings of logical links by the names that netlink requests have for them."""

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import BondMasterSpec, LinkSpecSpec, LinkStatusSpec
from talos.resource.addresses import parse_ip
from talos.system.net.links import LinkState

# The spec's fields that go to the kernel as they are, with the kernel's names.
_BOND_ATTRIBUTES = {
    "hash_policy": "bond_xmit_hash_policy",
    "mii_mon": "bond_miimon",
    "up_delay": "bond_updelay",
    "down_delay": "bond_downdelay",
    "use_carrier": "bond_use_carrier",
    "arp_interval": "bond_arp_interval",
    "arp_validate": "bond_arp_validate",
    "arp_all_targets": "bond_arp_all_targets",
    "primary_reselect": "bond_primary_reselect",
    "fail_over_mac": "bond_fail_over_mac",
    "min_links": "bond_min_links",
    "all_slaves_active": "bond_all_slaves_active",
    "num_peer_notif": "bond_num_peer_notif",
    "peer_notify_delay": "bond_peer_notif_delay",
    "resend_igmp": "bond_resend_igmp",
    "ad_select": "bond_ad_select",
    "lacp_rate": "bond_ad_lacp_rate",
    "adlacp_active": "bond_ad_lacp_active",
    "ad_actor_sys_prio": "bond_ad_actor_sys_prio",
    "ad_user_port_key": "bond_ad_user_port_key",
    "packets_per_slave": "bond_packets_per_slave",
    "lp_interval": "bond_lp_interval",
    "tlb_dynamic_lb": "bond_tlb_dynamic_lb",
    "missed_max": "bond_missed_max",
}
# Values of a new bond where they are not 0, drivers/net/bonding/bond_main.c.
_BOND_DEFAULTS = {
    "bond_use_carrier": 1,
    "bond_num_peer_notif": 1,
    "bond_resend_igmp": 1,
    "bond_packets_per_slave": 1,
    "bond_lp_interval": 1,
    "bond_tlb_dynamic_lb": 1,
    "bond_ad_lacp_active": 1,
    "bond_ad_actor_sys_prio": 65535,
    "bond_missed_max": 2,
}
_LACP = frozenset({enums_pb2.BOND_MODE8023_AD})
_BALANCED = frozenset({enums_pb2.BOND_MODE_TLB, enums_pb2.BOND_MODE_ALB})
_ARP = frozenset(
    {
        enums_pb2.BOND_MODE_ROUNDROBIN,
        enums_pb2.BOND_MODE_ACTIVE_BACKUP,
        enums_pb2.BOND_MODE_XOR,
        enums_pb2.BOND_MODE_BROADCAST,
    }
)
# The modes in which the driver accepts an option, where it refuses it in others, bond_options.c.
_BOND_MODES = {
    "bond_packets_per_slave": frozenset({enums_pb2.BOND_MODE_ROUNDROBIN}),
    "bond_arp_validate": _ARP,
    "bond_arp_interval": _ARP,
    "bond_ns_ip6_target": _ARP,
    "bond_ad_lacp_rate": _LACP,
    "bond_ad_lacp_active": _LACP,
    "bond_ad_actor_sys_prio": _LACP,
    "bond_ad_user_port_key": _LACP,
    "bond_primary": _BALANCED | {enums_pb2.BOND_MODE_ACTIVE_BACKUP},
    "bond_tlb_dynamic_lb": _BALANCED,
}
NEEDS_DOWN = frozenset(
    {
        "bond_mode",
        "bond_ad_select",
        "bond_ad_lacp_rate",
        "bond_ad_lacp_active",
        "bond_ad_user_port_key",
        "bond_tlb_dynamic_lb",
    }
)
"""Options that the driver changes only while the bond is down."""
NEEDS_EMPTY = frozenset({"bond_mode", "bond_fail_over_mac"})
"""Options that the driver changes only while the bond has no ports."""
FIXED = frozenset({"vlan_id", "vlan_protocol", "vrf_table"})
"""Settings that only a new link can have."""


def make_settings(spec: LinkSpecSpec, indexes: Mapping[str, int]) -> dict[str, Any]:
    """The settings of a logical link's kind, those included that are the kernel's own for a new one."""
    settings: dict[str, Any] = {}
    if spec.kind == "vlan":
        settings = {"vlan_id": spec.vlan.vid, "vlan_protocol": int(spec.vlan.protocol)}
    elif spec.kind == "bond":
        settings = _make_bond_settings(spec.bond_master, indexes)
    elif spec.kind == "bridge":
        settings["br_stp_state"] = int(spec.bridge_master.stp.enabled)
        settings["br_vlan_filtering"] = int(spec.bridge_master.vlan.filtering_enabled)
    elif spec.kind == "vrf":
        settings["vrf_table"] = int(spec.vrf_master.table)
    return settings


def make_creation(spec: LinkSpecSpec, settings: Mapping[str, Any], parent_index: int) -> dict[str, Any]:
    """The request that creates a link: a bond has no ports yet, which settings of its ports need."""
    creation: dict[str, Any] = {"kind": spec.kind}
    if parent_index:
        creation["link"] = parent_index
    if spec.kind == "veth":
        creation["peer"] = {"ifname": spec.veth.peer_name}
    for name, value in settings.items():
        if value != _BOND_DEFAULTS.get(name, 0) and value != () and name != "bond_primary":
            creation[name] = _thaw(value)
    return creation


def find_changes(settings: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ. One that the kernel does not report is as in a new link."""
    return {
        name: _thaw(value)
        for name, value in settings.items()
        if value != present.get(name, () if isinstance(value, tuple) else _BOND_DEFAULTS.get(name, 0))
    }


def _thaw(value: Any) -> Any:
    """A list as requests have it."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _make_bond_settings(spec: BondMasterSpec, indexes: Mapping[str, int]) -> dict[str, Any]:
    """A bond's settings, without those that the driver refuses in its mode."""
    settings: dict[str, Any] = {"bond_mode": int(spec.mode)}
    for field, name in _BOND_ATTRIBUTES.items():
        settings[name] = int(getattr(spec, field))
    settings["bond_arp_ip_target"] = tuple(
        str(target) for item in spec.arpip_targets if (target := parse_ip(item)) is not None
    )
    settings["bond_ns_ip6_target"] = tuple(
        str(target) for item in spec.nsip6_targets if isinstance(target := parse_ip(item), IPv6Address)
    )
    if spec.primary in indexes:
        settings["bond_primary"] = indexes[spec.primary]
    return {
        name: value
        for name, value in settings.items()
        if name not in _BOND_MODES or spec.mode in _BOND_MODES[name]
    }


def show_settings(status: LinkStatusSpec, link: LinkState, parent: str) -> None:
    """Show a link's settings in its status. ``parent`` is its parent's name, a veth's other end."""
    settings = dict(link.settings)
    if link.kind == "vlan":
        status.vlan.vid = settings.get("vlan_id", 0)
        setattr(status.vlan, "protocol", settings.get("vlan_protocol", 0))  # noqa: B010 - any number
    elif link.kind == "bridge":
        status.bridge_master.stp.enabled = bool(settings.get("br_stp_state"))
        status.bridge_master.vlan.filtering_enabled = bool(settings.get("br_vlan_filtering"))
    elif link.kind == "vrf":
        setattr(status.vrf_master, "table", settings.get("vrf_table", 0))  # noqa: B010 - any number
    elif link.kind == "veth" and parent:
        status.veth.peer_name = parent
    elif link.kind == "bond":
        bond = status.bond_master
        for field, name in (("mode", "bond_mode"), *_BOND_ATTRIBUTES.items()):
            if name in settings:
                setattr(bond, field, settings[name])
        bond.primary_index = settings.get("bond_primary", 0)
        bond.arpip_targets.extend(make_ip(ip_address(t)) for t in settings.get("bond_arp_ip_target", ()))
        bond.nsip6_targets.extend(make_ip(ip_address(t)) for t in settings.get("bond_ns_ip6_target", ()))
