"""A network interface's driver and link settings, most of them by the ethtool ioctls."""

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from talos.system.net.driver_settings import (
    RING_OPTIONS,
    DriverChange,
    RingOptions,
    change_ring_options,
    read_ring_options,
)

# <linux/sockios.h>, <linux/ethtool.h>
_SIOCETHTOOL = 0x8946
_GET_DRIVER = 0x03
_GET_WOL = 0x05
_GET_LINK = 0x0A
_GET_RINGS = 0x10
_GET_STRINGS = 0x1B
_GET_STRING_SETS = 0x37
_GET_FEATURES = 0x3A
_GET_CHANNELS = 0x3C
_GET_LINK_SETTINGS = 0x4C
_SET_WOL, _SET_RINGS, _SET_FEATURES, _SET_CHANNELS = 0x06, 0x11, 0x3B, 0x3D
_WOL = struct.Struct("=III6x2x")
_REFUSED_FEATURE = 0x1
_RING_SIZES = ("rx", "rx_mini", "rx_jumbo", "tx")
_CHANNEL_NUMBERS = ("rx", "tx", "other", "combined")
_FEATURE_NAMES, _LINK_MODE_NAMES = 4, 9
_STRING_BYTES = 32
_NAME_BYTES = 16
_DRIVER = struct.Struct("=I32s32s32s32s32s12x5I")
"""``struct ethtool_drvinfo``: driver, version, firmware, bus."""
_SYS = Path("/sys/class/net")
_LINK_SETTINGS = struct.Struct("=IIBBBBBBBbBBBB7I")
"""``struct ethtool_link_settings`` without the masks behind it."""
_WORDS_FIELD, _WORDS_OFFSET = 9, 15
_WORD_BITS = 32
_UNKNOWN_SPEED = 0xFFFFFFFF
PORT_OTHER, DUPLEX_UNKNOWN = 0xFF, 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """An offload. ``is_fixed``: it can't be switched."""

    name: str
    is_active: bool
    is_fixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sizes of rings or numbers of channels, each with its maximum."""

    maximum: tuple[int, int, int, int]
    current: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which driver an interface has, and where its hardware is. ``pci`` is ``1AF4:1000``: vendor, product."""

    driver: str = ""
    version: str = ""
    firmware: str = ""
    bus_path: str = ""
    pci: str = ""
    speed: int = 0
    port: int = PORT_OTHER
    duplex: int = DUPLEX_UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """A driver's answers; the defaults are for what it doesn't support. ``speed`` in Mbit/s."""

    has_link: bool = False
    speed: int = 0
    port: int = PORT_OTHER
    duplex: int = DUPLEX_UNKNOWN
    own_modes: tuple[str, ...] = ()
    peer_modes: tuple[str, ...] = ()
    wake_on: int = 0
    rings: Counts | None = None
    """rx, rx mini, rx jumbo, tx."""
    ring_options: RingOptions = field(default_factory=RingOptions)
    channels: Counts | None = None
    """rx, tx, other, combined."""
    features: tuple[Feature, ...] = field(default=())


class Driver:
    """The door to one interface's driver."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def read(self) -> DriverState:
        """All of the driver's answers."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
            settings = self._read_link_settings(control)
            speed, duplex, port, own, peer = settings or (0, DUPLEX_UNKNOWN, PORT_OTHER, (), ())
            link = self._send_or_none(control, struct.pack("=II", _GET_LINK, 0))
            wake = self._send_or_none(control, _WOL.pack(_GET_WOL, 0, 0))
            return DriverState(
                has_link=bool(link and struct.unpack("=II", link)[1]),
                speed=0 if speed == _UNKNOWN_SPEED else speed,
                port=port,
                duplex=duplex,
                own_modes=own,
                peer_modes=peer,
                wake_on=_WOL.unpack(wake)[2] if wake else 0,
                rings=self._read_counts(control, _GET_RINGS),
                ring_options=read_ring_options(self._name.decode()),
                channels=self._read_counts(control, _GET_CHANNELS),
                features=self._read_features(control),
            )

    def identify(self) -> Identity:
        """The driver, and the link's settings; empty where there are none."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
            answer = self._send_or_none(control, _DRIVER.pack(_GET_DRIVER, *[b""] * 5, *[0] * 5))
            settings = self._read_link_settings(control)
        texts = [_text(field) for field in _DRIVER.unpack(answer)[1:5]] if answer else [""] * 4
        speed, duplex, port, *_ = settings or (0, DUPLEX_UNKNOWN, PORT_OTHER)
        driver, version, firmware, bus = texts
        return Identity(
            driver=driver,
            version=version,
            firmware="" if firmware == "N/A" else firmware,
            bus_path="" if bus == "N/A" else bus,
            pci=_read_pci(self._name.decode()),
            speed=0 if speed == _UNKNOWN_SPEED else speed,
            port=port,
            duplex=duplex,
        )

    def change(self, change: DriverChange) -> None:
        """Make the changes, which may take a driver seconds; OSError with its reason."""
        options = {key: value for key, value in change.rings.items() if key in RING_OPTIONS}
        sizes = {key: int(value) for key, value in change.rings.items() if key not in RING_OPTIONS}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
            if sizes:
                self._set_counts(control, (_GET_RINGS, _SET_RINGS), _RING_SIZES, sizes)
            if change.channels:
                self._set_counts(control, (_GET_CHANNELS, _SET_CHANNELS), _CHANNEL_NUMBERS, change.channels)
            if change.features:
                self._set_features(control, change.features)
            if change.wake_on is not None:
                self._send(control, _WOL.pack(_SET_WOL, 0, change.wake_on))
        if options:
            change_ring_options(self._name.decode(), options)

    def _set_counts(
        self,
        control: socket.socket,
        commands: tuple[int, int],
        names: tuple[str, ...],
        wanted: Mapping[str, int],
    ) -> None:
        counts = self._read_counts(control, commands[0])
        if counts is None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        numbers = [wanted.get(name, old) for name, old in zip(names, counts.current, strict=True)]
        self._send(control, struct.pack("=9I", commands[1], *counts.maximum, *numbers))

    def _set_features(self, control: socket.socket, wanted: Mapping[str, bool]) -> None:
        names = self._read_strings(control, _FEATURE_NAMES)
        unknown = wanted.keys() - set(names)
        if unknown:
            raise OSError(errno.EINVAL, f"the kernel has no feature {', '.join(sorted(unknown))}")
        blocks = [[0, 0] for _ in range(-(-len(names) // _WORD_BITS))]
        for name, is_on in wanted.items():
            block, bit = divmod(names.index(name), _WORD_BITS)
            blocks[block][0] |= 1 << bit
            blocks[block][1] |= is_on << bit
        numbers = [number for block in blocks for number in block]
        request = struct.pack(f"=II{len(numbers)}I", _SET_FEATURES, len(blocks), *numbers)
        _, code = self._send(control, request)
        if code & _REFUSED_FEATURE:
            raise OSError(errno.EOPNOTSUPP, "the driver can't switch it")

    def _send_or_none(self, control: socket.socket, request: bytes) -> bytes | None:
        """The answer in the request's place; None when the driver has none."""
        try:
            return self._send(control, request)[0]
        except OSError:
            return None

    def _send(self, control: socket.socket, request: bytes) -> tuple[bytes, int]:
        """The answer in the request's place, and the code that was returned; OSError."""
        buffer = ctypes.create_string_buffer(request, len(request))
        frame = bytearray(struct.pack(f"{_NAME_BYTES}sP16x", self._name, ctypes.addressof(buffer)))
        code = fcntl.ioctl(control, _SIOCETHTOOL, frame)
        return buffer.raw, code

    def _read_link_settings(
        self, control: socket.socket
    ) -> tuple[int, int, int, tuple[str, ...], tuple[str, ...]] | None:
        size = _LINK_SETTINGS.size
        empty = bytearray(size)
        struct.pack_into("=I", empty, 0, _GET_LINK_SETTINGS)
        # The first answer has, as a negative number, the count of 32-bit words in a mask.
        first = self._send_or_none(control, bytes(empty))
        words = -_LINK_SETTINGS.unpack(first)[_WORDS_FIELD] if first else 0
        if words <= 0:
            return None
        struct.pack_into("=b", empty, _WORDS_OFFSET, words)
        answer = self._send_or_none(control, bytes(empty) + bytes(3 * words * 4))
        if answer is None:
            return None
        fields = _LINK_SETTINGS.unpack_from(answer)
        masks = struct.unpack_from(f"={3 * words}I", answer, size)
        names = self._read_strings(control, _LINK_MODE_NAMES)
        own, peer = masks[words : 2 * words], masks[2 * words :]
        return fields[1], fields[2], fields[3], _name_bits(own, names), _name_bits(peer, names)

    def _read_counts(self, control: socket.socket, command: int) -> Counts | None:
        answer = self._send_or_none(control, struct.pack("=9I", command, *[0] * 8))
        if answer is None:
            return None
        numbers = struct.unpack("=9I", answer)
        return Counts(maximum=numbers[1:5], current=numbers[5:9])

    def _read_features(self, control: socket.socket) -> tuple[Feature, ...]:
        names = self._read_strings(control, _FEATURE_NAMES)
        blocks = -(-len(names) // _WORD_BITS)
        answer = self._send_or_none(control, struct.pack(f"=II{16 * blocks}x", _GET_FEATURES, blocks))
        if answer is None:
            return ()
        found: list[Feature] = []
        for index, name in enumerate(names):
            available, _, active, never_changed = struct.unpack_from(
                "=4I", answer, 8 + 16 * (index // _WORD_BITS)
            )
            bit = 1 << index % _WORD_BITS
            if name:
                is_fixed = bool(never_changed & bit) or not available & bit
                found.append(Feature(name=name, is_active=bool(active & bit), is_fixed=is_fixed))
        return tuple(found)

    def _read_strings(self, control: socket.socket, which: int) -> tuple[str, ...]:
        sets = self._send_or_none(control, struct.pack("=IIQI4x", _GET_STRING_SETS, 0, 1 << which, 0))
        count = struct.unpack_from("=IIQI", sets)[3] if sets else 0
        answer = self._send_or_none(
            control, struct.pack(f"=III{count * _STRING_BYTES}x", _GET_STRINGS, which, count)
        )
        if answer is None:
            return ()
        texts = (
            answer[12 + start : 12 + start + _STRING_BYTES]
            for start in range(0, count * _STRING_BYTES, _STRING_BYTES)
        )
        return tuple(map(_text, texts))


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode(errors="replace")


def _read_pci(name: str) -> str:
    """Vendor and product on the PCI bus. A device of virtio is a child of the one on the bus."""
    device = _SYS / name / "device"
    for place in (device, device / ".."):
        try:
            if not (place / "class").exists():
                continue
            vendor, product = ((place / key).read_text().strip() for key in ("vendor", "device"))
        except OSError:
            return ""
        return f"{vendor.removeprefix('0x')}:{product.removeprefix('0x')}".upper()
    return ""


def _name_bits(masks: tuple[int, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        name
        for index, name in enumerate(names)
        if index // _WORD_BITS < len(masks) and masks[index // _WORD_BITS] >> index % _WORD_BITS & 1
    )
