"""Connections to the apids of other nodes, one per target."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from talos.api.rpc import Code, RpcError
from talos.rpc.limits import RAW_OPTIONS
from talos.rpc.target import make_target

if TYPE_CHECKING:
    import grpc.aio

PORT = 50000

IDLE_TIMEOUT = 15 * 60.0
"""Seconds until an unused connection is closed (as upstream)."""

MAX_PEERS = 512
"""Targets that are connected at a time; the one unused for longest is closed."""

LOOKAHEAD = 128 * 1024
"""Bytes of one call's replies that wait here for a client that does not read them."""

PEER_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *RAW_OPTIONS,
    # Milliseconds. Connecting may take 20 s, the wait between attempts grows to 15 s.
    ("grpc.initial_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 15_000),
    ("grpc.client_idle_timeout_ms", int(IDLE_TIMEOUT * 1000)),
    ("grpc.http2.lookahead_bytes", LOOKAHEAD),
    ("grpc.http2.bdp_probe", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredentials:
    """This node's certificate for calling other nodes, and the CAs of theirs. All PEM."""

    certificate: bytes
    key: bytes
    authorities: tuple[bytes, ...]


@dataclass(slots=True, eq=False)
class _Connection:
    channel: "grpc.aio.Channel"
    calls: int = 0
    used: float = 0.0
    dropped: bool = False
    closing: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def close(self) -> None:
        """Close as soon as no call uses it."""
        self.dropped = True
        if not self.calls and not self.closing:
            self.closing.append(asyncio.get_running_loop().create_task(self.channel.close()))


class Peers:
    """The connections of one set of credentials. Its functions are asyncio's."""

    def __init__(self, credentials: PeerCredentials, *, port: int = PORT) -> None:
        self._given = credentials
        self._credentials: grpc.ChannelCredentials | None = None
        self._port = port
        self._connections: dict[str, _Connection] = {}
        self._old: set[_Connection] = set()

    @asynccontextmanager
    async def connection(self, target: str) -> "AsyncGenerator[grpc.aio.Channel]":
        """The connection to a target, for one call."""
        connection = self._get(target)
        connection.calls += 1
        try:
            yield connection.channel
        finally:
            connection.calls -= 1
            connection.used = asyncio.get_running_loop().time()
            if connection.dropped:
                connection.close()

    def _get(self, target: str) -> _Connection:
        connection = self._connections.get(target)
        if connection is None:
            self._make_room()
            where = make_target(target, self._port)
            import grpc.aio  # 10 MiB that a node that forwards no calls doesn't load

            if self._credentials is None:
                self._credentials = grpc.ssl_channel_credentials(
                    root_certificates=b"\n".join(self._given.authorities),
                    private_key=self._given.key,
                    certificate_chain=self._given.certificate,
                )
            channel = grpc.aio.secure_channel(where, self._credentials, PEER_OPTIONS)
            connection = self._connections[target] = _Connection(channel)
        return connection

    def _make_room(self) -> None:
        now = asyncio.get_running_loop().time()
        unused = sorted(
            (entry.used, target) for target, entry in self._connections.items() if not entry.calls
        )
        surplus = len(self._connections) - MAX_PEERS + 1
        for position, (used, target) in enumerate(unused):
            if position < surplus or now - used > IDLE_TIMEOUT:
                self._drop(target)
        if len(self._connections) >= MAX_PEERS:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"calls to {MAX_PEERS} other nodes are open")

    def _drop(self, target: str) -> None:
        connection = self._connections.pop(target)
        self._old = {old for old in self._old if not (old.closing and old.closing[0].done())}
        self._old.add(connection)
        connection.close()

    def retire(self) -> None:
        """The credentials have been replaced: close every connection after its last call."""
        for target in list(self._connections):
            self._drop(target)

    async def close(self) -> None:
        """Close every connection now."""
        self.retire()
        for connection in self._old:
            await connection.channel.close()
