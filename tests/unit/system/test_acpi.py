"""Events of ACPI as the kernel sends them."""

import socket
import struct
from typing import cast

import pytest

from talos.system.acpi import POWER_BUTTON, AcpiEvent, parse_events
from talos.system.net.netlink import NETLINK_GENERIC, Netlink, make_attribute, make_generic, receive

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
    with Netlink(NETLINK_GENERIC) as netlink:
        assert netlink.find_group("nlctrl", "notify") > 0
        with pytest.raises(OSError, match="nlctrl has no group nothing"):
            netlink.find_group("nlctrl", "nothing")


class Datagrams:
    """A socket of netlink with these datagrams and their senders."""

    def __init__(self, *datagrams: tuple[bytes, int]) -> None:
        self.left = list(datagrams)

    def recvfrom(self, _size: int) -> tuple[bytes, tuple[int, int]]:
        if not self.left:
            raise BlockingIOError
        data, sender = self.left.pop(0)
        return data, (sender, 0)


def test_only_messages_of_the_kernel_are_received() -> None:
    """A program with CAP_NET_ADMIN in the node's network, such as a pod's, can send to PID 1's sockets."""
    source = cast("socket.socket", Datagrams((b"forged", 4711), (b"real", 0), (b"forged", 1)))
    assert receive(source, 4096) == b"real"
    with pytest.raises(BlockingIOError):
        receive(source, 4096)


@pytest.mark.root
def test_a_forged_event_is_dropped() -> None:
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as listening,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as forging,
    ):
        listening.bind((0, 0))
        listening.setblocking(False)
        message = make_message(make_generic(1, make_attribute(1, EVENT)))
        forging.sendto(message, (listening.getsockname()[0], 0))
        assert listening.recv(4096, socket.MSG_PEEK) == message
        with pytest.raises(BlockingIOError):
            receive(listening, 4096)
