"""Scaleway: all metadata in one document."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source
from talos.machined.platform.values import Fields, as_fields, as_list, as_text, read_fields

ADDRESS = "169.254.42.42"
BASE, FILE = f"http://{ADDRESS}", "conf?format=json"


async def load_user_data(source: Source) -> bytes:
    """The machine config; the server gives it to root only."""
    return await source.server.get(f"{BASE}/user_data/cloud-init", low_port=True)


async def load_documents(source: Source) -> Documents:
    """The document."""
    return await source.server.get_all(BASE, (FILE,))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """The public addresses of the first card; without any, DHCP of all cards is what happens anyway."""
    found = read_fields(documents.get(FILE, b""), FILE)
    # Older documents have one address of each kind.
    older = [found[name] for name in ("public_ip", "ipv6") if found.get(name)]
    values = as_list(found.get("public_ips"), FILE) or older
    addresses = [as_fields(value, f"{FILE}: public address") for value in values]
    if addresses:
        _add_card(addresses, builder)
    builder.set_hostname(as_text(found.get("hostname"), f"{FILE}: hostname"), FILE)
    location = as_fields(found.get("location") or {}, f"{FILE}: location")
    metadata = builder.spec.metadata
    metadata.zone = as_text(location.get("zone_id"), f"{FILE}: location.zone_id")
    # Of the zone fr-par-1 the region is fr-par.
    metadata.region = "-".join(metadata.zone.split("-")[:2])
    metadata.instance_type = as_text(found.get("commercial_type"), f"{FILE}: commercial_type")
    metadata.instance_id = as_text(found.get("id"), f"{FILE}: id")
    if metadata.instance_id:
        metadata.provider_id = f"scaleway://instance/{metadata.zone}/{metadata.instance_id}"


def _add_card(addresses: list[Fields], builder: NetworkBuilder) -> None:
    """The card, its addresses, of which those of IPv4 come by DHCP, and a route to the metadata server."""
    link = builder.name_card(0)
    builder.add_link(link)
    builder.add_route(link, {"to": f"{ADDRESS}/32"}, FILE)
    has_dhcp = False
    for one in addresses:
        text = as_text(one.get("address"), f"{FILE}: address")
        if ":" in text:
            builder.add_address(link, f"{text}/{one.get('netmask')}", FILE)
            if one.get("gateway"):
                builder.add_route(link, {"via": one["gateway"]}, FILE)
        elif text:
            has_dhcp = True
            builder.add_external_addresses((text,), FILE)
    if has_dhcp:
        builder.add_dhcp4(link)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
