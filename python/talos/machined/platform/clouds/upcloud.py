"""UpCloud: all metadata in one document."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import as_fields, as_list, as_number, as_text, read_fields

BASE = f"{LINK_LOCAL}/metadata"
FILE = "v1.json"
_INDEXES = (1, 1024)


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    return await source.server.get(f"{BASE}/v1/user_data")


async def load_documents(source: Source) -> Documents:
    """The document."""
    return await source.server.get_all(BASE, (FILE,))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Each card with its addresses; what the document calls a region is the zone of the cloud."""
    found = read_fields(documents.get(FILE, b""), FILE)
    network = as_fields(found.get("network") or {}, f"{FILE}: network")
    for value in as_list(network.get("interfaces"), f"{FILE}: interfaces"):
        _add_card(value, builder)
    builder.add_resolvers(network.get("dns"), None, f"{FILE}: dns")
    builder.set_hostname(as_text(found.get("hostname"), f"{FILE}: hostname"), FILE)
    metadata = builder.spec.metadata
    metadata.zone = as_text(found.get("region"), f"{FILE}: region")
    metadata.instance_id = as_text(found.get("instance_id"), f"{FILE}: instance_id")
    if metadata.instance_id:
        metadata.provider_id = f"upcloud://{metadata.instance_id}"


def _add_card(value: object, builder: NetworkBuilder) -> None:
    card = as_fields(value, f"{FILE}: interfaces")
    index = as_number(card.get("index"), _INDEXES, f"{FILE}: index of an interface")
    where = f"{FILE}: interface {index}"
    link = builder.choose_card(card.get("mac"), index - 1)
    if not link:
        return
    builder.add_link(link)
    has_dhcp = False
    for one in as_list(card.get("ip_addresses"), where):
        address = as_fields(one, where)
        # Those of IPv6 come by router advertisements then, which are the kernel's.
        if address.get("dhcp"):
            has_dhcp = has_dhcp or address.get("family") == "IPv4"
            continue
        length = str(address.get("network")).partition("/")[2]
        builder.add_address(link, f"{address.get('address')}/{length}", where)
        if address.get("gateway"):
            builder.add_route(link, {"via": address["gateway"]}, where)
    if has_dhcp:
        builder.add_dhcp4(link)


CLOUD = Cloud(
    user_data="user_data", load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
