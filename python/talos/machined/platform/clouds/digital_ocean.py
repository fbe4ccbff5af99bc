"""DigitalOcean: all metadata in one document."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import as_fields, as_list, as_text, read_fields

BASE = f"{LINK_LOCAL}/metadata"
FILE, ADDRESS = "v1.json", "v1/interfaces/public/0/ipv4/address"
SERVER = f"{LINK_LOCAL.removeprefix('http://')}/32"


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    return await source.server.get(f"{BASE}/v1/user-data")


async def load_documents(source: Source) -> Documents:
    """The document, and the public address."""
    return await source.server.get_all(BASE, (FILE, ADDRESS))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Static addresses: first the public cards, then those of private networks, which have no gateway."""
    found = read_fields(documents.get(FILE, b""), FILE)
    interfaces = as_fields(found.get("interfaces") or {}, f"{FILE}: interfaces")
    for kind in ("public", "private"):
        for value in as_list(interfaces.get(kind), f"{FILE}: interfaces"):
            _add_card(value, kind, builder)
    servers = as_fields(found.get("dns") or {}, f"{FILE}: dns").get("nameservers")
    builder.add_resolvers(servers, None, f"{FILE}: dns")
    builder.set_hostname(as_text(found.get("hostname"), f"{FILE}: hostname"), FILE)
    builder.add_external_addresses((text_of(documents, ADDRESS),), ADDRESS)
    metadata = builder.spec.metadata
    metadata.region = as_text(found.get("region"), f"{FILE}: region")
    metadata.instance_id = as_text(found.get("droplet_id"), f"{FILE}: droplet_id")
    if metadata.instance_id:
        metadata.provider_id = f"digitalocean://{metadata.instance_id}"


def _add_card(value: object, kind: str, builder: NetworkBuilder) -> None:
    number, is_public = len(builder.spec.links), kind == "public"
    where = f"{FILE}: interfaces.{kind}"
    card = as_fields(value, where)
    link = builder.choose_card(card.get("mac"), number)
    if not link:
        return
    builder.add_link(link)
    if number == 0:
        builder.add_route(link, {"to": SERVER}, where)
    for name in ("ipv4", "ipv6", "anchor_ipv4"):
        if card.get(name):
            address = as_fields(card[name], f"{where}.{name}")
            length = address.get("netmask") or address.get("cidr")
            builder.add_address(link, f"{address.get('ip_address')}/{length}", where)
            # A reserved address of the cloud comes to the anchor's, and answers leave as all others do.
            if is_public and name != "anchor_ipv4" and address.get("gateway"):
                builder.add_route(link, {"via": address["gateway"]}, where)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
