"""The launcher's ``network.yaml`` as the network config of the platform."""

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.platform.builder import MTUS, NetworkBuilder
from talos.machined.platform.values import (
    Fields,
    as_list,
    as_number,
    as_text,
    check_link_name,
    items_of,
    part_of,
    read_yaml,
    text_in,
)

FILE = "network.yaml"


def parse_network(text: str, hostname: str, *, platform: str) -> PlatformConfigSpec:
    """Of a platform: links with static addresses, a gateway each, resolvers and time servers.

    UserError: with the place of the mistake.
    """
    builder = NetworkBuilder({})
    found = part_of(read_yaml(text, FILE), FILE)
    for link in items_of(found.get("links"), f"{FILE}: links"):
        _add_link(link, builder)
    builder.add_resolvers(found.get("resolvers"), None, FILE)
    servers = [as_text(server, f"{FILE}: timeServers") for server in as_list(found.get("timeServers"), FILE)]
    if servers:
        builder.add_time_servers(*servers)
    builder.set_hostname(text_in(found, "hostname", FILE) or hostname, FILE)
    builder.spec.metadata.platform = platform
    return builder.spec


def _add_link(fields: Fields, builder: NetworkBuilder) -> None:
    name = check_link_name(text_in(fields, "name", FILE), f"{FILE}: name of a link")
    where, link = f"{FILE}: link {name}", builder.add_link(name)
    if fields.get("mtu"):
        link.mtu = as_number(fields["mtu"], MTUS, f"{where}: mtu")
    for address in as_list(fields.get("addresses"), where):
        builder.add_address(name, str(address), where)
    if fields.get("gateway"):
        builder.add_route(name, {"via": fields["gateway"]}, where)
