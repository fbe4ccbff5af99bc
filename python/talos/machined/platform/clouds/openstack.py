"""OpenStack: a volume labelled config-2, or its metadata server."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of
from talos.machined.platform.clouds.openstack_network import NETWORK_DATA, read_network_data
from talos.machined.platform.clouds.server import LINK_LOCAL
from talos.machined.platform.values import as_text, read_fields

LABEL, FOLDER = "config-2", "openstack/latest"
USER_DATA, META_DATA = "user_data", "meta_data.json"
ADDRESS, TYPE = "public-ipv4", "instance-type"
EC2 = "ec2/latest/meta-data.json"
"""The file of the volume that has what the server keeps under ``latest/meta-data``."""


async def load_user_data(source: Source) -> bytes:
    """The machine config."""
    place = f"{FOLDER}/{USER_DATA}"
    files = await source.volume.load_attached(LABEL, (place,))
    if files is not None:
        return files.get(place, b"")
    return await source.server.get(f"{LINK_LOCAL}/{place}")


async def load_documents(source: Source) -> Documents:
    """The two documents of OpenStack, and what only the documents for clients of EC2 have."""
    names = (f"{FOLDER}/{META_DATA}", f"{FOLDER}/{NETWORK_DATA}", EC2)
    files = await source.volume.load_attached(LABEL, names)
    if files is not None:
        return {name.removeprefix(f"{FOLDER}/"): data for name, data in files.items()}
    found = await source.server.get_all(f"{LINK_LOCAL}/{FOLDER}", (META_DATA, NETWORK_DATA))
    return found | await source.server.get_all(f"{LINK_LOCAL}/latest/meta-data", (ADDRESS, TYPE))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Network and names; without ``network_data.json`` the network is left to DHCP."""
    found = read_fields(documents.get(META_DATA, b""), META_DATA)
    ec2 = read_fields(documents.get(EC2, b""), EC2)
    if documents.get(NETWORK_DATA):
        read_network_data(documents[NETWORK_DATA], builder)
    builder.set_hostname(as_text(found.get("hostname"), f"{META_DATA}: hostname"), META_DATA)
    address = text_of(documents, ADDRESS) or as_text(ec2.get(ADDRESS), f"{EC2}: {ADDRESS}")
    builder.add_external_addresses((address,), ADDRESS)
    metadata = builder.spec.metadata
    metadata.zone = as_text(found.get("availability_zone"), f"{META_DATA}: availability_zone")
    metadata.instance_type = text_of(documents, TYPE) or as_text(ec2.get(TYPE), f"{EC2}: {TYPE}")
    metadata.instance_id = as_text(found.get("uuid"), f"{META_DATA}: uuid")
    if metadata.instance_id:
        metadata.provider_id = f"openstack:///{metadata.instance_id}"


CLOUD = Cloud(
    user_data=USER_DATA, load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
