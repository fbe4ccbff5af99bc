"""Links out of pyroute2's messages, with those settings of their kind that a config has."""

from typing import Any, cast

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ifinfmsg.plugins.bond import bond

from talos.system.net.links import LinkState

# IFLA_OPERSTATE as pyroute2 spells it, to the kernel's number.
_OPER_STATES = {
    name: number
    for number, name in enumerate(
        ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")
    )
}


class Bond(bond):
    """pyroute2's table of a bond's attributes with those that it lacks."""

    nla_map = (
        *bond.nla_map,
        ("IFLA_BOND_PEER_NOTIF_DELAY", "uint32"),
        ("IFLA_BOND_AD_LACP_ACTIVE", "uint8"),
        ("IFLA_BOND_MISSED_MAX", "uint8"),
        ("IFLA_BOND_NS_IP6_TARGET", "*ipaddr"),
    )


_info: Any = ifinfmsg.ifinfo
_info.register_link_kind(module={"bond": Bond})

SETTINGS = {
    "bond": frozenset(name for name, form in Bond.nla_map if form not in {"none", "ad_info", "hex"})
    - {"IFLA_BOND_ACTIVE_SLAVE"},
    "bridge": frozenset({"IFLA_BR_STP_STATE", "IFLA_BR_VLAN_FILTERING"}),
    "vlan": frozenset({"IFLA_VLAN_ID", "IFLA_VLAN_PROTOCOL"}),
    "vrf": frozenset({"IFLA_VRF_TABLE"}),
}
"""Attributes of a kind that a config sets; of the others some change all the time, such as timers."""


def parse_link(message: Any) -> LinkState:
    """A link out of the kernel's message."""
    info = message.get("IFLA_LINKINFO")
    names = message.get("IFLA_PROP_LIST")
    return LinkState(
        index=message["index"],
        name=make_text(message.get("IFLA_IFNAME")),
        type=message["ifi_type"],
        flags=message["flags"],
        hardware_address=_hardware(message.get("IFLA_ADDRESS")),
        permanent_address=_hardware(message.get("IFLA_PERM_ADDRESS")),
        broadcast_address=_hardware(message.get("IFLA_BROADCAST")),
        mtu=message.get("IFLA_MTU") or 0,
        queue_disc=message.get("IFLA_QDISC") or "",
        master_index=message.get("IFLA_MASTER") or 0,
        parent_index=message.get("IFLA_LINK") or 0,
        operational_state=_OPER_STATES.get(message.get("IFLA_OPERSTATE"), 0),
        kind=(info.get("IFLA_INFO_KIND") or "") if info else "",
        slave_kind=(info.get("IFLA_INFO_SLAVE_KIND") or "") if info else "",
        alias=make_text(message.get("IFLA_IFALIAS")),
        alternative_names=tuple(map(make_text, names.get_attrs("IFLA_ALT_IFNAME"))) if names else (),
        bus_path=message.get("IFLA_PARENT_DEV_NAME") or "",
        carrier=bool(message.get("IFLA_CARRIER")),
        settings=_settings(info),
    )


def make_text(value: str | bytes | None) -> str:
    """A name that pyroute2 leaves as bytes where it is no UTF-8, which the kernel takes from any program."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value or ""


def is_whole(message: Any) -> bool:
    """Whether a notification has all of a link. The first end of a new virtual cable has no other end yet."""
    info = message.get("IFLA_LINKINFO")
    return info is None or info.get("IFLA_INFO_KIND") != "veth" or bool(message.get("IFLA_LINK"))


def _settings(info: Any | None) -> tuple[tuple[str, Any], ...]:
    """A kind's settings by the names of requests; lists as tuples."""
    data: Any = info.get("IFLA_INFO_DATA") if info is not None else None
    if info is None or data is None:
        return ()
    found: list[tuple[str, Any]] = []
    for name in SETTINGS.get(info.get("IFLA_INFO_KIND"), ()):
        value: Any = data.get(name)
        if value is not None:
            value = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
            found.append((name.removeprefix("IFLA_").lower(), value))
    return tuple(sorted(found))


def _hardware(text: str | None) -> bytes:
    try:
        return bytes.fromhex((text or "").replace(":", ""))
    except ValueError:
        return b""
