"""Changes of an interface's driver settings, and the options of rings, which only ethtool's netlink has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from talos.system.net.netlink import (
    NETLINK_GENERIC,
    Netlink,
    make_attribute,
    make_generic,
    make_nested,
    parse_attributes,
    strip_generic,
)

# <linux/ethtool_netlink.h>
_FAMILY = "ethtool"
_RINGS_GET, _RINGS_SET = 15, 16
_HEADER, _HEADER_DEV_NAME = 1, 2
_NUMBERS = {"rx_buf_len": 10, "cqe_size": 12, "tx_push_buf_len": 15}
_SWITCHES = {"tcp_data_split": 11, "tx_push": 13, "rx_push": 14}
"""Attributes of one byte; those of ``_NUMBERS`` have four."""
_TX_PUSH_BUF_LEN_MAX = 16
_TCP_DATA_SPLIT = {False: 1, True: 2}
"""0 is for drivers without it."""
RING_OPTIONS = frozenset({*_NUMBERS, *_SWITCHES})


@dataclass(frozen=True, slots=True, kw_only=True)
class RingOptions:
    """Settings of rings beyond their sizes; 0 and off where the driver has none."""

    rx_buf_len: int = 0
    cqe_size: int = 0
    tx_push: bool = False
    rx_push: bool = False
    tx_push_buf_len: int = 0
    tx_push_buf_len_max: int = 0
    tcp_data_split: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverChange:
    """What is to change; what is empty or None stays. ``wake_on`` are bits of <linux/ethtool.h>, WAKE_*."""

    rings: Mapping[str, int | bool] = field(default_factory=dict[str, int | bool])
    channels: Mapping[str, int] = field(default_factory=dict[str, int])
    features: Mapping[str, bool] = field(default_factory=dict[str, bool])
    wake_on: int | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.rings or self.channels or self.features) or self.wake_on is not None

    def describe(self) -> str:
        """What changes, by the names of the config."""
        words = [f"{name} {value}" for name, value in (*self.rings.items(), *self.channels.items())]
        words += [f"{name} {'on' if is_on else 'off'}" for name, is_on in self.features.items()]
        return ", ".join(words) or "wake-on-LAN"


def read_ring_options(name: str) -> RingOptions:
    """The options of a driver's rings; the defaults when it has none, or the kernel no such question."""
    try:
        with Netlink(NETLINK_GENERIC) as netlink:
            answers = netlink.request(netlink.find_family(_FAMILY), make_generic(_RINGS_GET, _header(name)))
    except OSError:
        return RingOptions()
    found = {
        number: int.from_bytes(value, "little")
        for answer in answers
        for number, value in parse_attributes(strip_generic(answer)).items()
    }
    return RingOptions(
        rx_buf_len=found.get(_NUMBERS["rx_buf_len"], 0),
        cqe_size=found.get(_NUMBERS["cqe_size"], 0),
        tx_push=bool(found.get(_SWITCHES["tx_push"])),
        rx_push=bool(found.get(_SWITCHES["rx_push"])),
        tx_push_buf_len=found.get(_NUMBERS["tx_push_buf_len"], 0),
        tx_push_buf_len_max=found.get(_TX_PUSH_BUF_LEN_MAX, 0),
        tcp_data_split=found.get(_SWITCHES["tcp_data_split"]) == _TCP_DATA_SPLIT[True],
    )


def change_ring_options(name: str, options: Mapping[str, int | bool]) -> None:
    """Change some of ``RING_OPTIONS``; OSError with the driver's reason."""
    attributes = [
        make_attribute(_NUMBERS[key], int(value)) for key, value in options.items() if key in _NUMBERS
    ]
    for key, value in options.items():
        if key in _SWITCHES:
            number = _TCP_DATA_SPLIT[bool(value)] if key == "tcp_data_split" else int(value)
            attributes.append(make_attribute(_SWITCHES[key], bytes((number,))))
    with Netlink(NETLINK_GENERIC) as netlink:
        netlink.request(netlink.find_family(_FAMILY), make_generic(_RINGS_SET, _header(name), *attributes))


def _header(name: str) -> bytes:
    return make_nested(_HEADER, make_attribute(_HEADER_DEV_NAME, name))
