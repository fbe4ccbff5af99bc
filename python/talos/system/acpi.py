"""Events of ACPI, such as a pressed power button, from generic netlink.

The kernel sends them to a group of the family ``acpi_event``: drivers/acpi/event.c. A hypervisor's shutdown
and a BMC's soft power off press the same button. Events of programs are none: a pod with CAP_NET_ADMIN in the
node's network could shut the machine down.
"""

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass

import trio

from talos.system.net.netlink import (
    NETLINK_GENERIC,
    Netlink,
    parse_attributes,
    receive,
    split_messages,
    strip_generic,
)

FAMILY, GROUP = "acpi_event", "acpi_mc_group"
POWER_BUTTON = "button/power"
_EVENT_ATTRIBUTE = 1
_EVENT = struct.Struct("=20s15sxII")
"""struct acpi_genl_event: class, bus id, type, data."""
_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP = 270, 1
_RECEIVE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpiEvent:
    """What has happened, by the class of its device, ``button/power`` or ``ac_adapter``."""

    device_class: str
    bus_id: str
    type: int
    data: int


async def watch_acpi() -> AsyncGenerator[AcpiEvent]:
    """Events as they come; OSError: this kernel or machine has none."""
    with Netlink(NETLINK_GENERIC) as netlink:
        group = netlink.find_group(FAMILY, GROUP)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, NETLINK_GENERIC) as listening:
        listening.bind((0, 0))
        listening.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)
        while True:
            await trio.lowlevel.wait_readable(listening)
            with suppress(BlockingIOError):
                for event in parse_events(receive(listening, _RECEIVE_BYTES)):
                    yield event


def parse_events(datagram: bytes) -> list[AcpiEvent]:
    """The events of a datagram; what is no event is left out."""
    found: list[AcpiEvent] = []
    for _, body in split_messages(datagram):
        data = parse_attributes(strip_generic(body)).get(_EVENT_ATTRIBUTE, b"")
        if len(data) < _EVENT.size:
            continue
        device_class, bus_id, number, value = _EVENT.unpack_from(data)
        found.append(
            AcpiEvent(device_class=_text(device_class), bus_id=_text(bus_id), type=number, data=value)
        )
    return found


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("ascii", "replace")
