"""Apache CloudStack: its virtual router is the metadata server."""

from functools import partial

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of

BASE = "http://data-server./latest"
"""The name is one that the network's DHCP makes known; the dot keeps it from search domains."""
NAME, ID, ADDRESS = "local-hostname", "instance-id", "public-ipv4"
TYPE, ZONE = "service-offering", "availability-zone"


async def load_user_data(base: str, source: Source) -> bytes:
    """The machine config."""
    return await source.server.get(f"{base}/user-data")


async def load_documents(base: str, source: Source) -> Documents:
    """The parts of the metadata."""
    return await source.server.get_all(f"{base}/meta-data", (NAME, ID, TYPE, ZONE, ADDRESS))


def describe(scheme: str, documents: Documents, builder: NetworkBuilder) -> None:
    """Names only: addresses come by DHCP, which all cards have that no layer of the network names."""
    builder.set_hostname(text_of(documents, NAME), NAME)
    builder.add_external_addresses((text_of(documents, ADDRESS),), ADDRESS)
    metadata = builder.spec.metadata
    metadata.zone, metadata.instance_type = text_of(documents, ZONE), text_of(documents, TYPE)
    metadata.instance_id = text_of(documents, ID)
    if metadata.instance_id:
        metadata.provider_id = f"{scheme}://{metadata.instance_id}"


def make_cloud(base: str, scheme: str) -> Cloud:
    """A cloud with these parts below a URL; ``scheme`` begins its provider ids."""
    return Cloud(
        load_user_data=partial(load_user_data, base),
        load_documents=partial(load_documents, base),
        describe=partial(describe, scheme),
    )


CLOUD = make_cloud(BASE, "cloudstack")
