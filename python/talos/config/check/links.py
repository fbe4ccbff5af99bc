"""Checks of documents about links and their addresses."""

import re
from collections.abc import Iterator
from typing import Any

from talos.config.check.expressions import check_expression
from talos.config.check.forms import check_present
from talos.config.check.note import Check, Note
from talos.config.check.wireguard import check_key
from talos.config.documents.network.bond import BondConfig
from talos.config.documents.network.bridge import BridgeConfig
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dhcp6 import DHCPv6Config
from talos.config.documents.network.link_alias import LinkAliasConfig
from talos.config.documents.network.veth import VethConfig
from talos.config.documents.network.vlan import VLANConfig
from talos.config.documents.network.vrf import VRFConfig
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.schema import Document

_MAX_VLAN = 4094  # IEEE 802.1Q: 0 and 4095 are reserved
_MAX_NAME = 15  # IFNAMSIZ - 1
_WITH_PRIMARY = ("active-backup", "balance-tlb", "balance-alb")
_VERB = re.compile(r"%(?!d$)")


def _addresses(link: Any, at: Note) -> Iterator[Note]:
    for index, address in enumerate(link.addresses or ()):
        yield from check_present(address.address, at.below(f"addresses[{index}].address"))
    for index, route in enumerate(link.routes or ()):
        if not route.destination and not route.gateway:
            yield at.below(f"routes[{index}]").find("needs destination or gateway")


def _link(document: Document) -> Iterator[Note]:
    yield from _addresses(document, Note.at(document))


def _lower_links(document: BondConfig | BridgeConfig | VRFConfig) -> Iterator[Note]:
    if document.name and document.name in document.links:
        yield Note.at(document, "links").find("contains the link itself")


def _bond(document: BondConfig) -> Iterator[Note]:
    at = Note.at(document)
    if not document.links:
        yield at.below("links").find("is empty")
    yield from _lower_links(document)
    primary = document.primary
    if primary == "":
        yield at.below("primary").find("is empty")
    elif primary and primary not in document.links:
        yield at.below("primary").find(f'"{primary}" is not among the links')
    if primary and (document.bond_mode or "balance-rr") not in _WITH_PRIMARY:
        hint = f"only {', '.join(_WITH_PRIMARY)}"
        yield at.below("primary").find(f"is not for {document.bond_mode or 'balance-rr'}", hint=hint)
    yield from _addresses(document, at)


def _bridge(document: BridgeConfig) -> Iterator[Note]:
    yield from _lower_links(document)
    yield from _addresses(document, Note.at(document))


def _vrf(document: VRFConfig) -> Iterator[Note]:
    at = Note.at(document)
    if not document.links:
        yield at.below("links").find("is empty")
    yield from check_present(document.table, at.below("table"), hint="number of a routing table")
    yield from _lower_links(document)
    yield from _addresses(document, at)


def _vlan(document: VLANConfig) -> Iterator[Note]:
    at = Note.at(document)
    if not 1 <= document.vlan_id <= _MAX_VLAN:
        yield at.below("vlanID").find(f"{document.vlan_id} is out of range", hint=f"from 1 to {_MAX_VLAN}")
    yield from check_present(document.parent, at.below("parent"), hint="the link that carries it")
    yield from _addresses(document, at)


def _veth(document: VethConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from _check_link_name(document.name, at.below("name"))
    yield from check_present(document.peer.name, at.below("peer.name"))
    yield from _check_link_name(document.peer.name, at.below("peer.name"))
    yield from _addresses(document, at)
    yield from _addresses(document.peer, at.below("peer"))


def _check_link_name(name: str, at: Note) -> Iterator[Note]:
    if len(name.encode()) > _MAX_NAME:
        yield at.find(f'"{name}" is too long', hint=f"at most {_MAX_NAME} bytes")
    if "/" in name or ":" in name:
        yield at.find(f'"{name}" has a character that is not allowed', hint="neither / nor :")


def _wireguard(document: WireguardConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_key(document.private_key, at.below("privateKey"))
    for index, peer in enumerate(document.peers or ()):
        yield from check_key(peer.public_key, at.below(f"peers[{index}].publicKey"))
        if peer.preshared_key:
            yield from check_key(peer.preshared_key, at.below(f"peers[{index}].presharedKey"))
    yield from _addresses(document, at)


def _link_alias(document: LinkAliasConfig) -> Iterator[Note]:
    at = Note.at(document)
    if _VERB.search(document.name):
        yield at.below("name").find(f'"{document.name}" has a % that is no number', hint="%d at the end")
    match = document.selector.match if document.selector else None
    yield from check_expression(match, "LINK", at.below("selector.match"), required=True)


def _dhcp(document: DHCPv4Config | DHCPv6Config) -> Iterator[Note]:
    at = Note.at(document, "duidRaw")
    if document.client_identifier == "duid" and not document.duid_raw:
        yield at.find("is missing", hint="clientIdentifier: duid needs it")
    if document.client_identifier != "duid" and document.duid_raw:
        yield at.find("is for clientIdentifier: duid")


CHECKS: dict[str, Check] = {
    "BondConfig": _bond,
    "BridgeConfig": _bridge,
    "DHCPv4Config": _dhcp,
    "DHCPv6Config": _dhcp,
    "DummyLinkConfig": _link,
    "LinkAliasConfig": _link_alias,
    "LinkConfig": _link,
    "VLANConfig": _vlan,
    "VRFConfig": _vrf,
    "VethConfig": _veth,
    "WireguardConfig": _wireguard,
}
