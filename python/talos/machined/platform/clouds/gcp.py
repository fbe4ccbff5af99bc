"""Google Compute Engine."""

from talos.machined.platform.builder import MTUS, NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import (
    Fields,
    as_list,
    as_number,
    as_text,
    items_of,
    read_items,
    read_json,
    text_in,
)

BASE = f"{LINK_LOCAL}/computeMetadata/v1"
HEADERS = {"Metadata-Flavor": "Google"}
RESOLVER, TIME_SERVER = "169.254.169.254", "metadata.google.internal"
PROJECT, NAME, HOSTNAME = "project/project-id", "instance/name", "instance/hostname"
ID, TYPE, ZONE = "instance/id", "instance/machine-type", "instance/zone"
SPOT, TAGS = "instance/scheduling/preemptible", "instance/tags"
NETWORK = "instance/network-interfaces/?recursive=true&alt=json"
PARTS = (PROJECT, NAME, HOSTNAME, ID, TYPE, ZONE, SPOT, TAGS, NETWORK)
CARDS = "network-interfaces"


async def load_user_data(source: Source) -> bytes:
    """The machine config, which is an attribute of the instance."""
    return await source.server.get(f"{BASE}/instance/attributes/user-data", HEADERS)


async def load_documents(source: Source) -> Documents:
    """The parts of the metadata."""
    return await source.server.get_all(BASE, PARTS, HEADERS)


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses of IPv4 come by DHCP, those of IPv6 are in the metadata."""
    for index, card in enumerate(read_items(documents.get(NETWORK, b""), CARDS)):
        _add_card(card, index, builder)
    builder.add_resolvers(RESOLVER, None, CARDS)
    builder.add_time_servers(TIME_SERVER)
    builder.set_hostname(text_of(documents, HOSTNAME), HOSTNAME)
    metadata, name = builder.spec.metadata, text_of(documents, NAME)
    # Zone and type come with a path: projects/123/zones/europe-west3-a.
    metadata.zone = text_of(documents, ZONE).rpartition("/")[2]
    metadata.region = metadata.zone.rpartition("-")[0]
    metadata.instance_type = text_of(documents, TYPE).rpartition("/")[2]
    metadata.instance_id = text_of(documents, ID)
    if name:
        metadata.provider_id = f"gce://{text_of(documents, PROJECT)}/{metadata.zone}/{name}"
    metadata.spot = text_of(documents, SPOT).lower() == "true"
    for tag in as_list(read_json(documents.get(TAGS, b""), TAGS), TAGS):
        metadata.tags[as_text(tag, TAGS)] = ""


def _add_card(card: Fields, index: int, builder: NetworkBuilder) -> None:
    where = f"{CARDS}[{index}]"
    for access in items_of(card.get("accessConfigs"), f"{where}.accessConfigs"):
        if text_in(access, "type", where) == "ONE_TO_ONE_NAT":
            builder.add_external_addresses((text_in(access, "externalIp", where),), where)
    name = builder.choose_card(text_in(card, "mac", where), index)
    if not name:
        return
    link, addresses = builder.add_link(name), as_list(card.get("ipv6"), where)
    if card.get("mtu"):
        link.mtu = as_number(card["mtu"], MTUS, f"{where}.mtu")
    if card.get("ip") or not addresses:
        builder.add_dhcp4(name)
    for address in addresses:
        builder.add_address(name, str(address), where)
    if addresses and card.get("gatewayIpv6"):
        builder.add_route(name, {"via": card["gatewayIpv6"]}, where)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
