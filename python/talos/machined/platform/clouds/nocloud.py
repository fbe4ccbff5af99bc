"""A nocloud seed: a volume labelled cidata, or a web server that the firmware's serial number names."""

import re

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source, text_of
from talos.machined.platform.clouds.network_config import read_network_config
from talos.machined.platform.values import Fields, part_of, read_yaml, text_in
from talos.system.errors import UserError
from talos.system.files import Files
from talos.system.proc.cmdline import Cmdline

LABEL = "cidata"
USER_DATA, META_DATA, NETWORK_CONFIG = "user-data", "meta-data", "network-config"
NAME, ID = "name", "id"
"""The documents with the name and the instance id that the serial number or the arguments have."""
INCLUDE = b"#include"
SERIAL = "/sys/class/dmi/id/product_serial"
_SEED = re.compile(r"ds=nocloud(?:-net)?((?:;[^;\s]*)*)")


async def load_user_data(source: Source) -> bytes:
    """The machine config of the seed."""
    base = _find_server(find_seed(source.files, source.arguments))
    if base:
        data = await source.server.get(base + USER_DATA, environment=source.environment)
    else:
        data = (await source.volume.load(LABEL, (USER_DATA,))).get(USER_DATA, b"")
    if data.startswith(INCLUDE):
        url = _read_include(data)
        data = await source.server.get(url, environment=source.environment)
    return data


def _read_include(data: bytes) -> str:
    """The URL in a user-data that only names another place."""
    lines = data.removeprefix(INCLUDE).decode("utf-8", "replace").split()
    if len(lines) != 1 or not lines[0].lower().startswith(("http://", "https://")):
        raise UserError("after #include one URL is expected", where=USER_DATA, hint="http:// or https://")
    return lines[0]


async def load_documents(source: Source) -> Documents:
    """The other files; a seed on the web has been reached without a config of the network."""
    seed = find_seed(source.files, source.arguments)
    base = _find_server(seed)
    if base:
        found = {META_DATA: await source.server.get(base + META_DATA, environment=source.environment)}
    else:
        found = dict(await source.volume.load(LABEL, (META_DATA, NETWORK_CONFIG)))
    return found | {NAME: seed.get("h", "").encode(), ID: seed.get("i", "").encode()}


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Name, metadata and network of the machine."""
    names = read_meta_data(documents.get(META_DATA, b""))
    metadata = builder.spec.metadata
    local, name = (text_in(names, key, META_DATA) for key in ("local-hostname", "hostname"))
    builder.set_hostname(text_of(documents, NAME) or local or name, META_DATA)
    metadata.instance_id = text_of(documents, ID) or text_in(names, "instance-id", META_DATA)
    metadata.instance_type = text_in(names, "instance-type", META_DATA)
    metadata.provider_id = text_in(names, "provider-id", META_DATA)
    metadata.region = text_in(names, "region", META_DATA)
    metadata.zone = text_in(names, "zone", META_DATA)
    metadata.external_dns = text_in(names, "public-hostname", META_DATA)
    if documents.get(NETWORK_CONFIG):
        read_network_config(documents[NETWORK_CONFIG], builder)


def find_seed(files: Files, arguments: Cmdline) -> dict[str, str]:
    """The fields of ``ds=nocloud;s=<url>;h=<hostname>``, in the serial number or among the arguments."""
    try:
        serial = files.read(SERIAL).strip()
    except OSError:
        serial = ""
    match = _SEED.search(serial) or _SEED.search(arguments.text)
    if match is None:
        return {}
    fields = (part.partition("=") for part in match[1].split(";") if part)
    return {name: value for name, _, value in fields}


def read_meta_data(data: bytes) -> Fields:
    """The fields of the seed's meta-data. UserError: when it is no YAML mapping."""
    return part_of(read_yaml(data, META_DATA), META_DATA)


def _find_server(seed: Fields) -> str:
    url = str(seed.get("s", ""))
    return url if not url or url.endswith("/") else f"{url}/"


CLOUD = Cloud(
    user_data=USER_DATA, load_user_data=load_user_data, load_documents=load_documents, describe=describe
)
