"""A call as bytes: what a proxy needs of it, for every transport."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from talos.api.rpc import Code, RpcError
from talos.rpc.status import make_trailers

RECEIVED_LIMIT = 48 * 1024
"""The largest metadata of a call that is accepted: names, values and 32 bytes for each
pair, as HPACK counts. Some of it is for a proxy only, such as a list of many nodes."""

FORWARDED_LIMIT = 7 * 1024
"""The largest metadata that is passed on: gRPC servers refuse at random what exceeds 8 KiB."""

type Metadata = tuple[tuple[str, str | bytes], ...]

_TRANSPORT_KEYS = frozenset({"te", "content-type", "content-length", "user-agent", "host", "connection"})


def is_transport_key(key: str) -> bool:
    """Whether a header belongs to the connection, not to the call, so that it is not passed on."""
    if key.startswith("grpc-"):
        return key not in {"grpc-status-details-bin", "grpc-trace-bin", "grpc-tags-bin"}
    return key.startswith(":") or key in _TRANSPORT_KEYS


def passed_on(metadata: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    """The metadata of another hop without what belongs to its connection."""
    return tuple((key, value) for key, value in metadata or () if not is_transport_key(key))


def check_size(metadata: Iterable[tuple[str, str | bytes]], limit: int) -> None:
    """Refuse more metadata than the limit."""
    size = sum(len(key) + len(value) + 32 for key, value in metadata)
    if size > limit:
        raise RpcError(Code.RESOURCE_EXHAUSTED, f"metadata of {size} bytes exceeds the limit of {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a call ends. ``code`` is a number, since unknown codes are passed on, too."""

    code: int = 0
    message: str = ""
    trailers: Metadata = ()

    @classmethod
    def of(cls, error: RpcError) -> "Status":
        """The status that an error stands for."""
        return cls(code=error.code, message=error.message, trailers=make_trailers(error))


OK = Status()
DEADLINE_EXCEEDED = Status(code=Code.DEADLINE_EXCEEDED, message="context deadline exceeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a connection: an address, and from a certificate the name and organizations.

    ``reached`` is the address of this machine that it has connected to.
    """

    address: str
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    reached: str = ""

    @property
    def host(self) -> str:
        """The address without the port and brackets."""
        return self.address.rpartition(":")[0].strip("[]")


class RawCall(Protocol):
    """The server's end of a call. Its functions are asyncio's."""

    @property
    def method(self) -> str:
        """The full path, ``/package.Service/Method``."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The caller's metadata without what belongs to the connection."""
        ...

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None when the call has none."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None after the last one."""
        ...

    async def send_headers(self, metadata: Metadata) -> None:
        """Begin the reply; nothing happens when it has begun."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message, waiting while the caller does not read."""
        ...


async def receive_one(call: RawCall) -> bytes:
    """The only request of a call."""
    request = await call.receive()
    if request is None:
        raise RpcError(Code.INTERNAL, "the request has no message")
    return request
