"""Variables in a config's URL: ``${uuid}``, ``${serial}`` and others."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.state import NotFoundError, State
from talos.system.errors import UserError
from talos.system.files import Files
from talos.system.logging import make_printable

CODE = "code"
"""The variable of a value that gives a machine its config, and so is a secret."""
_NAMES = ("uuid", "serial", "mac", "hostname", CODE)
META_CODE, META_UUID = "0x0b", "0x0f"
"""Ids of the MetaKey resources that hold the values."""
DMI = "/sys/class/dmi/id"
ETHERNET = 1
"""ARPHRD_ETHER, linux/if_arp.h."""
POLL_INTERVAL = 0.5  # seconds
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def find_variables(url: str) -> tuple[str, ...]:
    """The names of a URL's variables.

    UserError: for one that does not exist.
    """
    return check_variables(_VARIABLE.findall(url), where="talos.config")


def check_variables(names: Iterable[str], *, where: str) -> tuple[str, ...]:
    """The names, each once. UserError: for one that does not exist."""
    found = tuple(dict.fromkeys(names))
    if unknown := [name for name in found if name not in _NAMES]:
        hint = f"use one of {', '.join(_NAMES)}"
        raise UserError(f'there is no variable "{make_printable(unknown[0])}"', where=where, hint=hint)
    return found


def fill_url(url: str, values: Mapping[str, str]) -> str:
    """The URL with the values of its variables, quoted."""
    return _VARIABLE.sub(lambda match: quote(values[match[1]], safe=":"), url)


async def collect_values(state: State, files: Files, names: tuple[str, ...]) -> Mapping[str, str]:
    """The values of variables; waits for those that come with the network.

    UserError: when this machine has no such value.
    """
    values: dict[str, str] = {}
    for name in names:
        match name:
            case "uuid":
                values[name] = (
                    await _get_meta(state, META_UUID) or _read_dmi(files, "product_uuid", name).lower()
                )
            case "serial":
                values[name] = _read_dmi(files, "product_serial", name)
            case _ if name == CODE:
                values[name] = await _get_meta(state, META_CODE)
                if not values[name]:
                    raise UserError(f"META has no value {META_CODE} for ${{code}}", where="talos.config")
            case "mac":
                values[name] = await _wait_for_mac(state)
            case _:
                found = await wait_for(state, *ids.HOSTNAME_STATUS, lambda one: bool(one.spec.hostname))
                values[name] = found.spec.hostname
    return values


async def wait_for_network(state: State) -> None:
    """Wait for an address; a default route is not required, the server may be on the same network."""
    await wait_for(state, *ids.NETWORK_STATUS, lambda one: one.spec.address_ready)


def _read_dmi(files: Files, name: str, variable: str) -> str:
    try:
        value = files.read(f"{DMI}/{name}").strip()
    except OSError:
        value = ""
    if not value:
        raise UserError(f"the firmware has no {name} for ${{{variable}}}", where="talos.config")
    return value


async def _get_meta(state: State, id: str) -> str:
    try:
        return (await state.get(kinds.META_KEY, id)).spec.value
    except NotFoundError:
        return ""


async def _wait_for_mac(state: State) -> str:
    """The address of the first network card that is up, else of the first."""
    while True:
        cards = [
            (one.spec.operational_state != enums.OPER_STATE_UP, one.id, one.spec.hardware_addr)
            for one in await state.list(kinds.LINK_STATUS)
            if one.spec.type == ETHERNET and not one.spec.kind and len(one.spec.hardware_addr) == 6
        ]
        if cards:
            return ":".join(f"{byte:02x}" for byte in min(cards)[2])
        await trio.sleep(POLL_INTERVAL)
