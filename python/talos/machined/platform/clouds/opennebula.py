"""OpenNebula: a volume labelled context, with a script of assignments."""

from collections.abc import Mapping

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.assignments import read_assignments
from talos.machined.platform.clouds.cloud import (
    Cloud,
    Documents,
    Source,
    decode_user_data,
)
from talos.machined.platform.clouds.opennebula_card import FILE, add_cards
from talos.machined.platform.values import as_text

LABEL = "context"
ENDPOINT, ONEGATE = "ONEGATE_ENDPOINT", "169.254.16.9"
"""The host of the machine passes on to OneGate what comes for this address."""


async def load_user_data(source: Source) -> bytes:
    """The machine config, in base64 or as it is."""
    variables = _read(await source.volume.load(LABEL, (FILE,)))
    text = variables.get("USER_DATA") or variables.get("USERDATA") or ""
    return decode_user_data(text.encode())


async def load_documents(source: Source) -> Documents:
    """The script."""
    return await source.volume.load(LABEL, (FILE,))


def describe(documents: Documents, builder: NetworkBuilder) -> None:
    """Cards with their addresses, and names. The cloud has no provider id."""
    variables = _read(documents)
    add_cards(variables, builder)
    if ONEGATE in variables.get(ENDPOINT, "") and builder.spec.links:
        builder.add_route(builder.spec.links[0].name, {"to": f"{ONEGATE}/32"}, f"{FILE}: {ENDPOINT}")
    servers, domains = variables.get("DNS", "").split(), variables.get("SEARCH_DOMAIN", "").split()
    builder.add_resolvers(servers, domains, f"{FILE}: DNS")
    builder.set_hostname(variables.get("SET_HOSTNAME", ""), f"{FILE}: SET_HOSTNAME")
    builder.spec.metadata.instance_id = as_text(variables.get("VMID"), f"{FILE}: VMID")


def _read(documents: Documents) -> Mapping[str, str]:
    return read_assignments(documents.get(FILE, b""), FILE)


CLOUD = Cloud(
    user_data=f"{FILE}: USER_DATA",
    load_user_data=load_user_data,
    load_documents=load_documents,
    describe=describe,
)
