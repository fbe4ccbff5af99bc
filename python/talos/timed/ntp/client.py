"""One question to a time server by UDP."""

import secrets
from collections.abc import Callable
from typing import Protocol, override

import trio

from talos.api.rpc import Code, RpcError
from talos.timed.ntp import packet

ANSWER_TIMEOUT = 1.0
"""Seconds that a server has to answer."""
RESOLVE_TIMEOUT = 5.0
"""Seconds to resolve a server's name."""

type Now = Callable[[], float]
type Address = tuple[str, int]


class Protection(Protocol):
    """What authenticates a request and its reply; plain NTP has none."""

    def seal(self, request: bytes) -> bytes:
        """The request with what the server needs to verify it."""
        ...

    def is_authentic(self, reply: bytes) -> bool:
        """Whether a reply comes from the server itself, unchanged."""
        ...


class _Plain(Protection):
    @override
    def seal(self, request: bytes) -> bytes:
        return request

    @override
    def is_authentic(self, reply: bytes) -> bool:
        del reply
        return True


PLAIN: Protection = _Plain()


async def resolve(server: str, port: int = packet.PORT) -> list[Address]:
    """Addresses of a server. RpcError when its name has none."""
    try:
        with trio.fail_after(RESOLVE_TIMEOUT):
            found = await trio.socket.getaddrinfo(server, port, type=trio.socket.SOCK_DGRAM)
    except trio.TooSlowError:
        message = f"{server} can't be resolved within {RESOLVE_TIMEOUT:g} s"
        raise RpcError(Code.UNAVAILABLE, message) from None
    except (OSError, UnicodeError) as error:
        raise RpcError(Code.UNAVAILABLE, f"{server} can't be resolved: {error}") from None
    return list(dict.fromkeys((str(address[0]), int(address[1])) for *_, address in found))


async def query_address(
    server: str,
    address: Address,
    now: Now,
    *,
    protection: Protection = PLAIN,
    max_wait: float = ANSWER_TIMEOUT,
) -> packet.Sample:
    """Query one address of a server for the time. RpcError with the reason when there is no usable answer.

    The socket is connected: the kernel drops what comes from elsewhere.
    """
    family = trio.socket.AF_INET6 if ":" in address[0] else trio.socket.AF_INET
    try:
        with trio.fail_after(max_wait), trio.socket.socket(family, trio.socket.SOCK_DGRAM) as channel:
            await channel.connect(address)
            nonce = secrets.token_bytes(packet.NONCE)
            request = protection.seal(packet.make_request(nonce))
            sent = now()
            await channel.send(request)
            while True:
                reply = await channel.recv(packet.MAX_PACKET)
                received = now()
                # A packet that answers something else is not the end of the wait.
                if packet.is_reply(reply, nonce) and protection.is_authentic(reply):
                    return packet.parse_reply(reply, server, sent=sent, received=received)
    except trio.TooSlowError:
        message = f"{server} did not answer within {max_wait:g} s"
        raise RpcError(Code.UNAVAILABLE, message) from None
    except OSError as error:
        raise RpcError(Code.UNAVAILABLE, f"{server} can't be queried for the time: {error}") from None


async def query(
    server: str, now: Now, *, port: int = packet.PORT, max_wait: float = ANSWER_TIMEOUT
) -> packet.Sample:
    """Query the first address of a server for the time. RpcError."""
    addresses = await resolve(server, port)
    return await query_address(server, addresses[0], now, max_wait=max_wait)
