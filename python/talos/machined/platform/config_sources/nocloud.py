"""A nocloud seed: a volume labelled cidata, or a web server that the firmware's serial number names."""

import re
from typing import cast

from talos.config.problem import ConfigError
from talos.config.read.tree import parse_documents, plain
from talos.system.errors import UserError
from talos.system.files import Files
from talos.system.proc.cmdline import Cmdline

LABEL = "cidata"
USER_DATA, META_DATA, NETWORK_CONFIG = "user-data", "meta-data", "network-config"
SERIAL = "/sys/class/dmi/id/product_serial"
_SEED = re.compile(r"ds=nocloud(?:-net)?((?:;[^;\s]*)*)")


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


def parse_hostname(meta_data: bytes) -> str:
    """The machine's name in the seed's meta-data; empty when it has none.

    UserError: when it is no YAML mapping.
    """
    try:
        documents = parse_documents(meta_data)
    except ConfigError as error:
        raise UserError(f"this is no YAML: {error}".replace("\n", " "), where=META_DATA) from None
    data: object = plain(documents[0]) if documents else None
    if data is None:
        return ""
    if not isinstance(data, dict):
        raise UserError("this is no YAML mapping", where=META_DATA)
    values = cast("dict[str, object]", data)
    hostname = values.get("local-hostname") or values.get("hostname") or ""
    if not isinstance(hostname, str):
        raise UserError("the host name is no text", where=META_DATA)
    return hostname
