"""Vultr. One document has everything but the machine config."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import Fields, items_of, part_of, read_fields, text_in

INDEX = "v1.json"
PUBLIC, PRIVATE = "public", "private"
PRIVATE_MTU = 1450


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    return await source.server.get(f"{LINK_LOCAL}/latest/user-data")


async def load_documents(source: Source) -> Documents:
    """The whole metadata."""
    return await source.server.get_all(LINK_LOCAL, (INDEX,))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses of IPv4 are static; those of IPv6 come by router advertisements, which are the kernel's."""
    index = read_fields(documents.get(INDEX, b""), INDEX)
    for place, card in enumerate(items_of(index.get("interfaces"), f"{INDEX}.interfaces")):
        _add_card(card, place, builder)
    builder.set_hostname(text_in(index, "hostname", INDEX), INDEX)
    metadata = builder.spec.metadata
    region = part_of(index.get("region"), f"{INDEX}.region")
    metadata.region = text_in(region, "regioncode", f"{INDEX}.region")
    metadata.instance_id = text_in(index, "instance-v2-id", INDEX)
    if metadata.instance_id:
        metadata.provider_id = f"vultr://{metadata.instance_id}"


def _add_card(card: Fields, place: int, builder: NetworkBuilder) -> None:
    where = f"{INDEX}.interfaces[{place}]"
    ipv4 = part_of(card.get("ipv4"), f"{where}.ipv4")
    ipv6 = part_of(card.get("ipv6"), f"{where}.ipv6")
    address, gateway = text_in(ipv4, "address", where), text_in(ipv4, "gateway", where)
    kind = text_in(card, "network-type", where)
    if kind == PUBLIC:
        builder.add_external_addresses((address, text_in(ipv6, "address", where)), where)
    name = builder.choose_card(text_in(card, "mac", where), place)
    if not name:
        return
    link = builder.add_link(name)
    if kind == PRIVATE:
        link.mtu = PRIVATE_MTU
    if not address:
        builder.add_dhcp4(name)
        return
    builder.add_address(name, f"{address}/{text_in(ipv4, 'netmask', where)}", where)
    if gateway:
        builder.add_route(name, {"via": gateway}, where)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
