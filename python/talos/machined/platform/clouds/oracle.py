"""Oracle Cloud Infrastructure, version 2 of its metadata service."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import (
    Cloud,
    Documents,
    Source,
    decode_user_data,
)
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import Fields, read_fields, read_items, text_in

BASE = f"{LINK_LOCAL}/opc/v2"
HEADERS = {"Authorization": "Bearer Oracle"}
RESOLVER = TIME_SERVER = "169.254.169.254"
INSTANCE, CARDS = "instance/", "vnics/"


async def load_user_data(source: Source) -> bytes:
    """The machine config, in base64."""
    data = await source.server.get(f"{BASE}/instance/metadata/user_data", HEADERS)
    return decode_user_data(data)


async def load_documents(source: Source) -> Documents:
    """The instance and its cards."""
    return await source.server.get_all(BASE, (INSTANCE, CARDS), HEADERS)


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses come by DHCP; the public one is not in the metadata."""
    for index, card in enumerate(read_items(documents.get(CARDS, b""), CARDS)):
        _add_card(card, index, builder)
    builder.add_resolvers(RESOLVER, None, INSTANCE)
    builder.add_time_servers(TIME_SERVER)
    instance = read_fields(documents.get(INSTANCE, b""), INSTANCE)
    builder.set_hostname(text_in(instance, "hostname", INSTANCE), INSTANCE)
    metadata = builder.spec.metadata
    metadata.region = text_in(instance, "region", INSTANCE)
    # The domain begins with the name that the tenant has for it: Uocm:PHX-AD-1.
    metadata.zone = text_in(instance, "availabilityDomain", INSTANCE).rpartition(":")[2]
    metadata.instance_type = text_in(instance, "shape", INSTANCE)
    metadata.instance_id = text_in(instance, "id", INSTANCE)
    if metadata.instance_id:
        metadata.provider_id = f"oci://{metadata.instance_id}"


def _add_card(card: Fields, index: int, builder: NetworkBuilder) -> None:
    where = f"{CARDS}[{index}]"
    name = builder.choose_card(text_in(card, "macAddr", where), index)
    if not name:
        return
    builder.add_link(name)
    builder.add_dhcp4(name)
    router = text_in(card, "ipv6VirtualRouterIp", where)
    if router and text_in(card, "ipv6SubnetCidrBlock", where):
        builder.add_dhcp6(name)
        # DHCP of IPv6 has no routes.
        builder.add_route(name, {"via": router}, where)


CLOUD = Cloud(
    user_data="user_data", load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
