"""A bond's options as a config and the kernel's command line have them, as texts by the kernel's names."""

from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import BondMasterSpec
from talos.system.decimals import parse_decimal


def _words(named: Mapping[str, int]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        name = text.replace("_", "-")
        if name in named:
            return named[name]
        if text.isascii() and text.isdigit() and len(text) <= 4 and int(text) in named.values():
            return int(text)
        raise ValueError(f"{text!r} is none of {', '.join(named)}")

    return parse


def _number(maximum: int) -> Callable[[str], int]:
    return partial(parse_decimal, minimum=0, maximum=maximum)


# Names as the kernel's driver has them, <bonding.rst>.
_MODES = {
    "balance-rr": 0,
    "active-backup": 1,
    "balance-xor": 2,
    "broadcast": 3,
    "802.3ad": 4,
    "balance-tlb": 5,
    "balance-alb": 6,
}
_HASHES = {"layer2": 0, "layer3+4": 1, "layer2+3": 2, "encap2+3": 3, "encap3+4": 4}
_U8, _U16, _U32 = _number(0xFF), _number(0xFFFF), _number(0xFFFFFFFF)

BOND_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "mode": ("mode", _words(_MODES)),
    "xmit_hash_policy": ("hash_policy", _words(_HASHES)),
    "lacp_rate": ("lacp_rate", _words({"slow": 0, "fast": 1})),
    "lacp_active": ("adlacp_active", _words({"off": 0, "on": 1})),
    "arp_validate": (
        "arp_validate",
        _words(
            {
                "none": 0,
                "active": 1,
                "backup": 2,
                "all": 3,
                "filter": 4,
                "filter-active": 5,
                "filter-backup": 6,
            }
        ),
    ),
    "arp_all_targets": ("arp_all_targets", _words({"any": 0, "all": 1})),
    "primary": ("primary", str),
    "primary_reselect": ("primary_reselect", _words({"always": 0, "better": 1, "failure": 2})),
    "fail_over_mac": ("fail_over_mac", _words({"none": 0, "active": 1, "follow": 2})),
    "ad_select": ("ad_select", _words({"stable": 0, "bandwidth": 1, "count": 2})),
    "miimon": ("mii_mon", _U32),
    "updelay": ("up_delay", _U32),
    "downdelay": ("down_delay", _U32),
    "arp_interval": ("arp_interval", _U32),
    "resend_igmp": ("resend_igmp", _U32),
    "min_links": ("min_links", _U32),
    "lp_interval": ("lp_interval", _U32),
    "packets_per_slave": ("packets_per_slave", _U32),
    "num_peer_notif": ("num_peer_notif", _U8),
    "num_grat_arp": ("num_peer_notif", _U8),
    "num_unsol_na": ("num_peer_notif", _U8),
    "tlb_dynamic_lb": ("tlb_dynamic_lb", _U8),
    "all_slaves_active": ("all_slaves_active", _U8),
    "use_carrier": ("use_carrier", _number(1)),
    "ad_actor_sys_prio": ("ad_actor_sys_prio", _U16),
    "ad_user_port_key": ("ad_user_port_key", _U16),
    "peer_notif_delay": ("peer_notify_delay", _U32),
    "missed_max": ("missed_max", _U8),
}
"""Options of a bond by the kernel's name: the spec's field, and how its text is read."""

_LACP = 4


def make_bond(options: Mapping[str, str]) -> BondMasterSpec:
    """A bond's settings, the kernel's defaults for those that are missing; ValueError."""
    spec = BondMasterSpec(
        resend_igmp=1,
        lp_interval=1,
        packets_per_slave=1,
        num_peer_notif=1,
        tlb_dynamic_lb=1,
        use_carrier=True,
        missed_max=2,
    )
    spec.adlacp_active = enums_pb2.ADLACP_ACTIVE_ON
    for name, text in options.items():
        if name == "arp_ip_target":
            spec.arpip_targets.extend(make_ip(ip_address(target)) for target in text.split(";"))
        elif name == "ns_ip6_target":
            spec.nsip6_targets.extend(make_ip(ip_address(target)) for target in text.split(";"))
        elif name in BOND_OPTIONS:
            field, parse = BOND_OPTIONS[name]
            try:
                setattr(spec, field, parse(text))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        else:
            raise ValueError(f"{name!r} is no option of a bond")
    if spec.mode == _LACP and not spec.ad_actor_sys_prio:
        spec.ad_actor_sys_prio = 65535
    return spec
