"""Hetzner Cloud."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import (
    Cloud,
    Documents,
    Source,
    decode_user_data,
    text_of,
)
from talos.machined.platform.clouds.network_config import read_network_config
from talos.machined.platform.clouds.server import LINK_LOCAL

BASE = f"{LINK_LOCAL}/hetzner/v1"
NAME, ID, ZONE, ADDRESS = "hostname", "instance-id", "availability-zone", "public-ipv4"
NETWORK = "network-config"


async def load_user_data(source: Source) -> bytes:
    """The machine config, perhaps in base64."""
    return decode_user_data(await source.server.get(f"{BASE}/userdata"))


async def load_documents(source: Source) -> Documents:
    """The parts of the metadata."""
    return await source.server.get_all(f"{BASE}/metadata", (NAME, ID, ZONE, ADDRESS, NETWORK))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """The network as cloud-init's first version has it."""
    if documents.get(NETWORK):
        read_network_config(documents[NETWORK], builder)
    builder.set_hostname(text_of(documents, NAME), NAME)
    builder.add_external_addresses((text_of(documents, ADDRESS),), ADDRESS)
    metadata = builder.spec.metadata
    metadata.instance_id = text_of(documents, ID)
    metadata.zone = text_of(documents, ZONE)
    metadata.region = metadata.zone.partition("-")[0]
    if metadata.instance_id:
        metadata.provider_id = f"hcloud://{metadata.instance_id}"


CLOUD = Cloud(
    user_data="userdata", load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
