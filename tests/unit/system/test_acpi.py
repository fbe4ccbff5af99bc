"""Events of ACPI as the kernel sends them."""

import struct

import pytest

from talos.system.acpi import POWER_BUTTON, AcpiEvent, parse_events
from talos.system.net.netlink import NETLINK_GENERIC, Netlink, make_attribute, make_generic

EVENT = struct.pack("=20s15sxII", b"button/power", b"LNXPWRBN:00", 128, 1)


def make_message(body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), 24, 0, 0, 0) + body


def test_a_pressed_power_button_is_an_event() -> None:
    (event,) = parse_events(make_message(make_generic(1, make_attribute(1, EVENT))))
    assert event == AcpiEvent(device_class=POWER_BUTTON, bus_id="LNXPWRBN:00", type=128, data=1)


@pytest.mark.parametrize("body", [b"", make_generic(1), make_generic(1, make_attribute(1, EVENT[:-1]))])
def test_what_is_no_event_is_left_out(body: bytes) -> None:
    assert parse_events(make_message(body)) == []
    assert parse_events(body) == []


def test_a_family_has_its_groups() -> None:
    with Netlink(NETLINK_GENERIC) as asking:
        assert asking.find_group("nlctrl", "notify") > 0
        with pytest.raises(OSError, match="nlctrl has no group nothing"):
            asking.find_group("nlctrl", "nothing")
