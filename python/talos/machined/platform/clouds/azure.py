"""Microsoft Azure: the machine config on a CD, metadata from a server."""

import re
from collections.abc import Iterable

import trio

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.azure_ready import report_ready
from talos.machined.platform.clouds.cloud import (
    Cloud,
    Documents,
    Source,
    decode_user_data,
)
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.clouds.xml_text import read_texts
from talos.machined.platform.values import Fields, items_of, part_of, read_fields, read_items, text_in

BASE = f"{LINK_LOCAL}/metadata"
HEADERS = {"Metadata": "true"}
COMPUTE = "instance/compute?api-version=2021-12-13&format=json"
CARDS = "instance/network/interface?api-version=2021-12-13&format=json"
BALANCER = "loadbalancer?api-version=2021-05-01&format=json"
ENVIRONMENT, CUSTOM_DATA, FILESYSTEM = "ovf-env.xml", "CustomData", "udf"
BALANCER_TIMEOUT = 30.0
"""Seconds; the network does not depend on it."""
MTU = 1400
ROUTER6 = "fe80::1234:5678:9abc"
"""Of every network with IPv6."""
_GROUP = re.compile(r"(/subscriptions/[^/]+/resourceGroups/)([^/]+)", re.IGNORECASE)


async def load_user_data(source: Source) -> bytes:
    """The machine config, in base64. The machine is reported as ready, whatever its config."""
    found = await source.volume.load("", (ENVIRONMENT,), (FILESYSTEM,))
    await report_ready(source.server)
    if ENVIRONMENT not in found:
        return b""
    text = read_texts(found[ENVIRONMENT], (CUSTOM_DATA,), ENVIRONMENT).get(CUSTOM_DATA, "")
    return decode_user_data(text.encode())


async def load_documents(source: Source) -> Documents:
    """The machine, its cards, and the load balancer that it is behind, if any."""
    found = await source.server.get_all(BASE, (COMPUTE, CARDS), HEADERS)
    with trio.move_on_after(BALANCER_TIMEOUT):
        found |= await source.server.get_all(BASE, (BALANCER,), HEADERS)
    return found


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses come by DHCP; the metadata has public ones, which no link has."""
    link = builder.name_card(0)
    builder.add_link(link).mtu = MTU
    builder.add_dhcp4(link)
    for index, card in enumerate(read_items(documents.get(CARDS, b""), "interface")):
        _add_card(card, index, builder)
    where = "loadbalancer.publicIpAddresses"
    found = read_fields(documents.get(BALANCER, b""), "loadbalancer")
    balancer = part_of(found.get("loadbalancer"), "loadbalancer")
    for address in items_of(balancer.get("publicIpAddresses"), where):
        builder.add_external_addresses((text_in(address, "frontendIpAddress", where).strip("[]"),), where)
    _add_metadata(read_fields(documents.get(COMPUTE, b""), "compute"), builder)


def _add_card(card: Fields, index: int, builder: NetworkBuilder) -> None:
    where = f"interface[{index}]"
    builder.add_external_addresses(_list_addresses(card, "ipv4", "publicIpAddress", where), where)
    builder.add_external_addresses(_list_addresses(card, "ipv6", "publicIpAddress", where), where)
    if any(_list_addresses(card, "ipv6", "privateIpAddress", where)):
        link = builder.name_card(index)
        builder.add_dhcp6(link)
        builder.add_route(link, {"via": ROUTER6}, where)


def _list_addresses(card: Fields, family: str, name: str, where: str) -> Iterable[str]:
    place = f"{where}.{family}"
    items = items_of(part_of(card.get(family), place).get("ipAddress"), f"{place}.ipAddress")
    return [text_in(item, name, place) for item in items]


def _add_metadata(compute: Fields, builder: NetworkBuilder) -> None:
    where, metadata = "compute", builder.spec.metadata
    profile = part_of(compute.get("osProfile"), f"{where}.osProfile")
    builder.set_hostname(text_in(profile, "computerName", where), where)
    metadata.region = text_in(compute, "location", where).lower()
    zone = text_in(compute, "zone", where)
    metadata.zone = f"{metadata.region}-{zone}" if zone else text_in(compute, "platformFaultDomain", where)
    metadata.instance_type = text_in(compute, "vmSize", where)
    metadata.instance_id = text_in(compute, "resourceId", where)
    if metadata.instance_id:
        group = _GROUP.sub(lambda match: match[1] + match[2].lower(), metadata.instance_id, count=1)
        metadata.provider_id = f"azure://{group}"
    metadata.spot = bool(text_in(compute, "evictionPolicy", where))


CLOUD = Cloud(
    user_data=ENVIRONMENT, load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
