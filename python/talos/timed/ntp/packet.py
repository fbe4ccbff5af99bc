"""Packets of an NTP client (RFC 5905, section 7.3): the request and the reply."""

import struct
from dataclasses import dataclass

from talos.api.rpc import Code, RpcError
from talos.system.clock import Leap

PORT = 123
MAX_PACKET = 8192
"""Bytes; a reply with eight NTS cookies of the longest kind has 5000, of the usual kind 1000."""
NONCE = 8
"""Bytes of a request's nonce."""
_ERA_START = 1_577_836_800
"""2020 as seconds since 1970. NTP's 32 bits of seconds are read as the 136 years from here on, whatever
the local clock shows."""
_EPOCH_OFFSET = 2_208_988_800
"""Seconds between 1900, NTP's epoch, and 1970."""
_ERA_SECONDS = 1 << 32
_MODE_CLIENT, _MODE_SERVER = 3, 4
_VERSION = 4
_LEAP_UNKNOWN = 3
_MAX_STRATUM = 15
_MAX_DISTANCE = 1.5
"""Seconds of a server's own distance from its source, more of which make it useless (RFC 5905, MAXDIST)."""
# Flags, stratum, poll, precision, root delay, root dispersion, reference id and four times.
HEADER = struct.Struct("!BBbb11I")


class RefusedError(RpcError):
    """A kiss-o'-death packet (RFC 5905, section 7.4); ``kiss`` is its code."""

    def __init__(self, server: str, kiss: str) -> None:
        super().__init__(Code.UNAVAILABLE, f"{server} refuses to answer: {kiss}")
        self.kiss = kiss


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One comparison with a server, in seconds.

    ``offset`` is how far the local clock is behind, ``distance`` the greatest error of that: half of the
    round trip, and the server's own distance from its source.
    """

    server: str
    local: float
    """The local clock when the reply arrived, since 1970."""
    offset: float
    delay: float
    distance: float
    leap: Leap = Leap.NONE
    taken: float = 0.0
    """When it was taken, on a clock that is never set."""


def make_request(nonce: bytes) -> bytes:
    """The packet of a client.

    The server returns the client's time, which relates a reply to its request. It need not be a time:
    64 random bits can't be guessed, as those of a clock can, and they don't reveal the clock.
    """
    return HEADER.pack(_VERSION << 3 | _MODE_CLIENT, 0, 0, 0, *[0] * 9, *struct.unpack("!II", nonce))


def is_reply(packet: bytes, nonce: bytes) -> bool:
    """Whether a packet is a server's and answers the request with this nonce."""
    return len(packet) >= HEADER.size and packet[0] & 7 == _MODE_SERVER and packet[24:32] == nonce


def parse_reply(packet: bytes, server: str, *, sent: float, received: float) -> Sample:
    """A server's packet; RpcError when it can't be used. ``sent`` and ``received``: local clock."""
    flags, stratum, _, _, root_delay, root_dispersion, _, *times = HEADER.unpack_from(packet)
    if stratum == 0:
        code = packet[12:16].decode("ascii", errors="replace")
        raise RefusedError(server, "".join(char for char in code if char.isalnum()) or "without a reason")
    arrived, left = _from_ntp(times[4], times[5]), _from_ntp(times[6], times[7])
    # The delay of a server whose clock runs backwards or ahead within the call is no reason to trust it more.
    delay = max((received - sent) - max(left - arrived, 0.0), 0.0)
    own = root_delay / (1 << 16) / 2 + root_dispersion / (1 << 16)
    if flags >> 6 == _LEAP_UNKNOWN or stratum > _MAX_STRATUM or own > _MAX_DISTANCE or not any(times[6:]):
        raise RpcError(Code.UNAVAILABLE, f"{server} has no synchronized clock itself")
    return Sample(
        server=server,
        local=received,
        offset=((arrived - sent) + (left - received)) / 2,
        delay=delay,
        distance=delay / 2 + own,
        leap=Leap(flags >> 6),
    )


def _from_ntp(seconds: int, fraction: int) -> float:
    """Seconds since 1970, in the era that begins 2020."""
    time = seconds - _EPOCH_OFFSET
    eras = -(-(_ERA_START - time) // _ERA_SECONDS)
    return time + max(eras, 0) * _ERA_SECONDS + fraction / (1 << 32)
