"""Changes of an interface's driver settings, and what only ethtool's netlink has of them."""

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
_WOL_SET, _FEATURES_SET, _RINGS_GET, _RINGS_SET, _CHANNELS_SET = 10, 12, 15, 16, 18
_HEADER, _HEADER_DEV_NAME = 1, 2
_BITSET_SIZE, _BITSET_VALUE, _BITSET_MASK = 2, 4, 5
_BITSET_BITS, _BITSET_BIT, _BIT_NAME, _BIT_VALUE = 3, 1, 2, 3
_WOL_MODES, _FEATURES_WANTED = 2, 3
_WOL_BITS = 8
_RINGS = {
    "rx": 6,
    "rx_mini": 7,
    "rx_jumbo": 8,
    "tx": 9,
    "rx_buf_len": 10,
    "cqe_size": 12,
    "tx_push_buf_len": 15,
}
_RING_SWITCHES = {"tcp_data_split": 11, "tx_push": 13, "rx_push": 14}
"""Numbers of one byte; those of ``_RINGS`` have four."""
_TX_PUSH_BUF_LEN_MAX = 16
_CHANNELS = {"rx": 6, "tx": 7, "other": 8, "combined": 9}
_TCP_DATA_SPLIT = {False: 1, True: 2}
"""0 is for drivers without it."""


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
            answers = netlink.ask(netlink.find_family(_FAMILY), make_generic(_RINGS_GET, _header(name)))
    except OSError:
        return RingOptions()
    found = {
        number: int.from_bytes(value, "little")
        for answer in answers
        for number, value in parse_attributes(strip_generic(answer)).items()
    }
    return RingOptions(
        rx_buf_len=found.get(_RINGS["rx_buf_len"], 0),
        cqe_size=found.get(_RINGS["cqe_size"], 0),
        tx_push=bool(found.get(_RING_SWITCHES["tx_push"])),
        rx_push=bool(found.get(_RING_SWITCHES["rx_push"])),
        tx_push_buf_len=found.get(_RINGS["tx_push_buf_len"], 0),
        tx_push_buf_len_max=found.get(_TX_PUSH_BUF_LEN_MAX, 0),
        tcp_data_split=found.get(_RING_SWITCHES["tcp_data_split"]) == _TCP_DATA_SPLIT[True],
    )


def change_driver(name: str, change: DriverChange) -> None:
    """Make the changes, which may take a driver seconds; OSError with its reason."""
    requests: list[tuple[int, list[bytes]]] = []
    if change.rings:
        rings = [
            make_attribute(_RINGS[key], int(value)) for key, value in change.rings.items() if key in _RINGS
        ]
        for key, value in change.rings.items():
            if key in _RING_SWITCHES:
                number = _TCP_DATA_SPLIT[bool(value)] if key == "tcp_data_split" else int(value)
                rings.append(make_attribute(_RING_SWITCHES[key], bytes((number,))))
        requests.append((_RINGS_SET, rings))
    if change.channels:
        channels = [make_attribute(_CHANNELS[key], value) for key, value in change.channels.items()]
        requests.append((_CHANNELS_SET, channels))
    if change.features:
        bits = [
            make_nested(
                _BITSET_BIT,
                make_attribute(_BIT_NAME, key),
                *((make_attribute(_BIT_VALUE, b""),) if is_on else ()),
            )
            for key, is_on in change.features.items()
        ]
        requests.append((_FEATURES_SET, [make_nested(_FEATURES_WANTED, make_nested(_BITSET_BITS, *bits))]))
    if change.wake_on is not None:
        modes = (
            make_attribute(_BITSET_SIZE, _WOL_BITS),
            make_attribute(_BITSET_VALUE, change.wake_on),
            make_attribute(_BITSET_MASK, (1 << _WOL_BITS) - 1),
        )
        requests.append((_WOL_SET, [make_nested(_WOL_MODES, *modes)]))
    with Netlink(NETLINK_GENERIC) as netlink:
        family = netlink.find_family(_FAMILY)
        for command, attributes in requests:
            netlink.ask(family, make_generic(command, _header(name), *attributes))


def _header(name: str) -> bytes:
    return make_nested(_HEADER, make_attribute(_HEADER_DEV_NAME, name))
