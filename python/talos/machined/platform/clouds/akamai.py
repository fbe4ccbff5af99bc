"""Akamai's cloud, once Linode. Its metadata server gives parts to those who have a token."""

from collections.abc import Mapping

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import (
    Cloud,
    Documents,
    Source,
    decode_user_data,
)
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import as_list, as_text, part_of, read_fields, text_in

BASE = f"{LINK_LOCAL}/v1"
TOKEN_SECONDS = 3600
INSTANCE, NETWORK = "instance", "network"


async def load_user_data(source: Source) -> bytes:
    """The machine config, in base64."""
    data = await source.server.get(f"{BASE}/user-data", await _authorize(source))
    return decode_user_data(data)


async def load_documents(source: Source) -> Documents:
    """The instance and its network."""
    headers = {**await _authorize(source), "Accept": "application/json"}
    return await source.server.get_all(BASE, (INSTANCE, NETWORK), headers)


async def _authorize(source: Source) -> Mapping[str, str]:
    headers = {"Metadata-Token-Expiry-Seconds": str(TOKEN_SECONDS)}
    return {"Metadata-Token": await source.server.get_token(f"{BASE}/token", headers)}


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses of the first card; DHCP has the route of IPv4, which the metadata lacks."""
    network = read_fields(documents.get(NETWORK, b""), NETWORK)
    if network:
        link = builder.name_card(0)
        builder.add_link(link)
        builder.add_dhcp4(link)
        _add_addresses(link, network.get("ipv4"), network.get("ipv6"), builder)
    instance = read_fields(documents.get(INSTANCE, b""), INSTANCE)
    builder.set_hostname(text_in(instance, "label", INSTANCE), INSTANCE)
    metadata = builder.spec.metadata
    metadata.region = text_in(instance, "region", INSTANCE)
    metadata.instance_type = text_in(instance, "type", INSTANCE)
    metadata.instance_id = text_in(instance, "id", INSTANCE)
    if metadata.instance_id:
        metadata.provider_id = f"linode://{metadata.instance_id}"
    for tag in as_list(instance.get("tags"), f"{INSTANCE}.tags"):
        metadata.tags[as_text(tag, f"{INSTANCE}.tags")] = ""


def _add_addresses(link: str, ipv4: object, ipv6: object, builder: NetworkBuilder) -> None:
    """The address of SLAAC is left to the kernel."""
    where = f"{NETWORK}.ipv4"
    found = part_of(ipv4, where)
    public = [str(one) for one in as_list(found.get("public"), where)]
    for address in (*public, *as_list(found.get("private"), where)):
        builder.add_address(link, str(address), where)
    where = f"{NETWORK}.ipv6"
    found = part_of(ipv6, where)
    ranges = [str(one) for one in as_list(found.get("ranges"), where)]
    for address in ranges:
        builder.add_address(link, address, where)
    local = text_in(found, "link_local", where)
    if local:
        builder.add_route(link, {"via": f"{local.partition(':')[0]}::1"}, where)
    builder.add_external_addresses((one.partition("/")[0] for one in (*public, *ranges)), NETWORK)


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
