"""One question to a time server (SNTP, RFC 5905), enough to compare clocks."""

import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass

import trio

from talos.api.rpc import Code, RpcError

PORT = 123
# Seconds between 1900, NTP's epoch, and 1970.
EPOCH_OFFSET = 2_208_988_800
# One era of NTP's 32 bits of seconds ends in 2036.
ERA_SECONDS = 1 << 32
MAX_WAIT = 5.0
"""Seconds a server has to answer."""

_MODE_CLIENT, _MODE_SERVER = 3, 4
_VERSION = 4
# Leap indicator 3: the server's own clock is not synchronized.
_ALARM = 3
# Flags, stratum, poll, precision, root delay, root dispersion, reference id and four times.
_NONCE = 8
_PACKET = struct.Struct("!BBbb11I")

type Now = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered. Times in seconds since 1970; ``offset`` is what the local clock lacks."""

    server: str
    local: float
    remote: float
    offset: float


async def query(server: str, now: Now, *, port: int = PORT, max_wait: float = MAX_WAIT) -> Answer:
    """Query a server for the time. RpcError with the reason when there is no answer."""
    try:
        with trio.fail_after(max_wait):
            found = await trio.socket.getaddrinfo(server, port, type=trio.socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            with trio.socket.socket(family, trio.socket.SOCK_DGRAM) as channel:
                await channel.connect(address)
                nonce = secrets.token_bytes(_NONCE)
                sent = now()
                await channel.send(make_request(nonce))
                # A packet that answers another request is not the end of the wait.
                while True:
                    packet = await channel.recv(512)
                    answer = parse_reply(packet, server, nonce=nonce, sent=sent, received=now())
                    if answer is not None:
                        return answer
    except trio.TooSlowError:
        message = f"{server} did not answer within {max_wait:g} s"
        raise RpcError(Code.UNAVAILABLE, message) from None
    except OSError as error:
        raise RpcError(Code.UNAVAILABLE, f"{server} can't be queried for the time: {error}") from None


def make_request(nonce: bytes) -> bytes:
    """The packet of a client.

    The server gives the client's time back, by which the answer is known. It need not be a
    time: 64 random bits can't be guessed, as those of a clock can.
    """
    return _PACKET.pack(_VERSION << 3 | _MODE_CLIENT, 0, 0, 0, *[0] * 9, *struct.unpack("!II", nonce))


def parse_reply(packet: bytes, server: str, *, nonce: bytes, sent: float, received: float) -> Answer | None:
    """A server's packet; None when it answers another request, RpcError when it can't be used."""
    if len(packet) < _PACKET.size:
        return None
    flags, stratum, _, _, *fields = _PACKET.unpack_from(packet)
    if flags & 7 != _MODE_SERVER or packet[24:32] != nonce:
        return None
    if stratum == 0:
        code = packet[12:16].decode("ascii", errors="replace").rstrip("\0")
        raise RpcError(Code.UNAVAILABLE, f"{server} refuses to answer: {code}")
    if flags >> 6 == _ALARM:
        raise RpcError(Code.UNAVAILABLE, f"{server} has no synchronized clock itself")
    arrived, left = _from_ntp(fields[7], fields[8], received), _from_ntp(fields[9], fields[10], received)
    return Answer(
        server=server,
        local=received,
        remote=left,
        offset=((arrived - sent) + (left - received)) / 2,
    )


def _from_ntp(seconds: int, fraction: int, near: float) -> float:
    """The time in the era that is nearest to a known one."""
    time = seconds - EPOCH_OFFSET + fraction / (1 << 32)
    eras = round((near - time) / ERA_SECONDS)
    return time + eras * ERA_SECONDS
