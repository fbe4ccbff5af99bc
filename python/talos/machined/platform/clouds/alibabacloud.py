"""Alibaba Cloud ECS. Its metadata server gives parts to those who have a token (the hardened mode)."""

import re
from collections.abc import Mapping

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of, words_of

BASE = "http://100.100.100.200/latest"
TOKEN_SECONDS = 21600
NAME, REGION, ZONE = "hostname", "region-id", "zone-id"
ID, TYPE, MAC = "instance-id", "instance/instance-type", "mac"
PUBLIC, ELASTIC = "public-ipv4", "eipv4"
RESOLVERS, TIME_SERVERS = "dns-conf/nameservers", "ntp-conf/ntp-servers"
PARTS = (NAME, REGION, ZONE, ID, TYPE, MAC, PUBLIC, ELASTIC, RESOLVERS, TIME_SERVERS)
IPV6, GATEWAY6, BLOCK6 = "ipv6s", "ipv6-gateway", "vswitch-ipv6-cidr-block"
"""Of the first card."""
MAX_TIME_SERVERS = 5
"""There are about a dozen; as many as upstream takes."""
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    return await source.server.get(f"{BASE}/user-data", await _authorize(source))


async def load_documents(source: Source) -> Documents:
    """The parts of the metadata, and what the first card has of IPv6."""
    headers, base = await _authorize(source), f"{BASE}/meta-data"
    found = await source.server.get_all(base, PARTS, headers)
    card = text_of(found, MAC)
    if not _MAC.fullmatch(card):
        return found
    place = f"{base}/network/interfaces/macs/{card}"
    return found | await source.server.get_all(place, (IPV6, GATEWAY6, BLOCK6), headers)


async def _authorize(source: Source) -> Mapping[str, str]:
    headers = {"X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds": str(TOKEN_SECONDS)}
    return {"X-Aliyun-Ecs-Metadata-Token": await source.server.get_token(f"{BASE}/api/token", headers)}


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """On the first card, addresses of IPv4 come by DHCP, and those of IPv6 are static."""
    link = builder.choose_card(text_of(documents, MAC), 0)
    if link:
        builder.add_link(link)
        builder.add_dhcp4(link)
        _add_ipv6(link, documents, builder)
    builder.add_resolvers(words_of(documents, RESOLVERS), None, RESOLVERS)
    servers = words_of(documents, TIME_SERVERS)
    if servers:
        builder.add_time_servers(*servers[:MAX_TIME_SERVERS])
    builder.set_hostname(text_of(documents, NAME), NAME)
    public = PUBLIC if text_of(documents, PUBLIC) else ELASTIC
    builder.add_external_addresses((text_of(documents, public),), public)
    metadata = builder.spec.metadata
    metadata.region, metadata.zone = text_of(documents, REGION), text_of(documents, ZONE)
    metadata.instance_type, metadata.instance_id = text_of(documents, TYPE), text_of(documents, ID)
    if metadata.instance_id:
        metadata.provider_id = f"{metadata.region}.{metadata.instance_id}"


def _add_ipv6(link: str, documents: Documents, builder: NetworkBuilder) -> None:
    length = text_of(documents, BLOCK6).partition("/")[2]
    # A list in brackets, whose items have quotes or none: [2408:4321::1, 2408:4321::2].
    items = (item.strip(' "') for item in text_of(documents, IPV6).strip("[]").split(","))
    addresses = [item for item in items if item]
    for address in addresses:
        builder.add_address(link, f"{address}/{length or 128}", IPV6)
    gateway = text_of(documents, GATEWAY6)
    if addresses and length and gateway:
        builder.add_route(link, {"via": gateway}, GATEWAY6)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
