"""Amazon EC2. Its metadata server gives parts to those who have a token (version 2 of the service)."""

from urllib.parse import quote

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of, words_of
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import MAX_TEXT

SERVERS = (LINK_LOCAL, "http://[fd00:ec2::254]")
"""A machine may have addresses of one family only."""
SESSION = "/latest/api/token"
"""Where a session begins: the server gives its token."""
TOKEN_SECONDS = 21600
TIME_SERVER = "169.254.169.123"
TIME_SERVER6, RESOLVER6 = "fd00:ec2::123", "fd00:ec2::253"
NAME, LOCAL_NAME, PUBLIC_NAME = "hostname", "local-hostname", "public-hostname"
ID, TYPE, LIFE_CYCLE, ADDRESS = "instance-id", "instance-type", "instance-life-cycle", "public-ipv4"
REGION, ZONE = "placement/region", "placement/availability-zone"
TAGS, MAC, IPV6 = "tags/instance", "mac", "ipv6s"
MAX_TAGS = 50
"""As many as an instance may have."""
PARTS = (NAME, LOCAL_NAME, PUBLIC_NAME, ID, TYPE, LIFE_CYCLE, ADDRESS, REGION, ZONE, MAC)


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    server, headers = await _authorize(source)
    return await source.server.get(f"{server}/latest/user-data", headers)


async def load_documents(source: Source) -> Documents:
    """The parts of the metadata, each tag by its path, and the first card's addresses of IPv6."""
    server, headers = await _authorize(source)
    base = f"{server}/latest/meta-data"
    found = await source.server.get_all(base, PARTS, headers)
    names = words_of(await source.server.get_all(base, (TAGS,), headers), TAGS)
    for name in names[:MAX_TAGS]:
        found[f"{TAGS}/{name}"] = await source.server.get(f"{base}/{TAGS}/{quote(name)}", headers)
    addresses = f"network/interfaces/macs/{quote(text_of(found, MAC), safe=':')}/ipv6s"
    return found | {IPV6: await source.server.get(f"{base}/{addresses}", headers)}


async def _authorize(source: Source) -> tuple[str, dict[str, str]]:
    """The server that answers, and headers with its token."""
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
    urls = (f"{server}{SESSION}" for server in SERVERS)
    url, token = await source.server.find_token(urls, headers)
    return url.removesuffix(SESSION), {"X-aws-ec2-metadata-token": token}


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Addresses come by DHCP on the first card."""
    link = builder.name_card(0)
    builder.add_link(link)
    builder.add_dhcp4(link)
    builder.add_time_servers(TIME_SERVER)
    if words_of(documents, IPV6):
        builder.add_dhcp6(link)
        builder.add_time_servers(TIME_SERVER6)
        builder.add_resolvers(RESOLVER6, None, IPV6)
    builder.set_hostname(text_of(documents, NAME), NAME)
    builder.add_external_addresses((text_of(documents, ADDRESS),), ADDRESS)
    metadata = builder.spec.metadata
    metadata.region, metadata.zone = text_of(documents, REGION), text_of(documents, ZONE)
    metadata.instance_type, metadata.instance_id = text_of(documents, TYPE), text_of(documents, ID)
    if metadata.instance_id:
        metadata.provider_id = f"aws:///{metadata.zone}/{metadata.instance_id}"
    metadata.spot = text_of(documents, LIFE_CYCLE) == "spot"
    metadata.internal_dns = text_of(documents, LOCAL_NAME)
    metadata.external_dns = text_of(documents, PUBLIC_NAME)
    for name in documents:
        if name.startswith(f"{TAGS}/"):
            # Whatever people write into them.
            value = documents[name].decode("utf-8", "replace")
            metadata.tags[name.removeprefix(f"{TAGS}/")] = value[:MAX_TEXT]


CLOUD = Cloud(load_user_data=load_user_data, load_documents=load_documents, describe=describe)
