"""Captured packets as lines of text, one each, from a stream in the pcap format.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html
"""

import datetime
import struct
from collections.abc import Iterator
from ipaddress import ip_address

from talos.system.errors import UserError

_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1000),
}
"""The order of bytes, and how many units of a packet's time are a microsecond."""
_HEADER, _RECORD = 24, 16
"""Bytes of the stream's header, and of each packet's."""
MAX_PACKET = 1 << 18
"""Bytes of a packet: as many as libpcap keeps, MAXIMUM_SNAPLEN of its pcap-int.h."""
_ETHERNET, _RAW, _IPV4, _IPV6 = 1, 101, 228, 229
_TYPES = {0x0800: "IP", 0x86DD: "IP6", 0x0806: "ARP", 0x88CC: "LLDP"}
_PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 58: "ICMP6", 89: "OSPF", 132: "SCTP"}
_WITH_PORTS = {"TCP", "UDP", "SCTP"}


class PacketLines:
    """Takes the stream piece by piece."""

    def __init__(self) -> None:
        self._rest = bytearray()  # what it begins with can be removed without a copy of the rest
        self._order, self._per_microsecond, self._link = "", 1, 0

    def feed(self, piece: bytes) -> Iterator[str]:
        """The lines of the packets that are whole by now; UserError when it is no such stream."""
        self._rest += piece
        if not self._order:
            if len(self._rest) < _HEADER:
                return
            magic = _MAGICS.get(bytes(self._rest[:4]))
            if magic is None:
                raise UserError("what the node sends is no capture in the pcap format")
            self._order, self._per_microsecond = magic
            (self._link,) = struct.unpack(f"{self._order}I", self._rest[20:_HEADER])
            del self._rest[:_HEADER]
        while len(self._rest) >= _RECORD:
            seconds, part, kept, length = struct.unpack(f"{self._order}4I", self._rest[:_RECORD])
            if kept > MAX_PACKET:
                raise UserError(f"what the node sends is no capture: a packet of {kept} bytes")
            if len(self._rest) < _RECORD + kept:
                return
            data = bytes(self._rest[_RECORD : _RECORD + kept])
            del self._rest[: _RECORD + kept]
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            text = f"{moment:%H:%M:%S}.{part // self._per_microsecond:06}"
            yield f"{text} {describe(self._link, data)}, length {length}"


def describe(link: int, data: bytes) -> str:
    """What a packet is, and between whom, as far as its first bytes have it."""
    kind = "" if link == _ETHERNET else _kind_of(link, data)
    if link == _ETHERNET and len(data) >= 14:
        number = int.from_bytes(data[12:14])
        kind, data = _TYPES.get(number, f"ethertype 0x{number:04x}"), data[14:]
    if kind == "IP" and len(data) >= 20:
        return _describe_ip(kind, data[9], data[12:16], data[16:20], data[4 * (data[0] & 15) :])
    if kind == "IP6" and len(data) >= 40:
        return _describe_ip(kind, data[6], data[8:24], data[24:40], data[40:])
    return kind or f"link type {link}"


def _kind_of(link: int, data: bytes) -> str:
    version = data[0] >> 4 if data and link == _RAW else {_IPV4: 4, _IPV6: 6}.get(link)
    return {4: "IP", 6: "IP6"}.get(version or 0, "")


def _describe_ip(kind: str, number: int, source: bytes, target: bytes, inner: bytes) -> str:
    protocol = _PROTOCOLS.get(number, f"protocol {number}")
    ends = [str(ip_address(source)), str(ip_address(target))]
    if protocol in _WITH_PORTS and len(inner) >= 4:
        ends = [f"{end}.{port}" for end, port in zip(ends, struct.unpack(">2H", inner[:4]), strict=True)]
    return f"{kind} {' > '.join(ends)}: {protocol}"
