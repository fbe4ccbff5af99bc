"""Calls from apid: authorize each once more, and pass it to the daemon that owns its service."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.api.metadata import CALLER, ROLE
from talos.api.rpc import Code, RpcError
from talos.resource.controller.activity import READ_METHOD
from talos.routerd.counts import CallCounts
from talos.routerd.routes import OWNERS, Owner, owner_of
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.client import LocalChannel
from talos.rpc.limits import REPLY_MEMORY, WIDE_WINDOWS
from talos.rpc.protocol import Metadata, Status
from talos.rpc.proxy.local import forward, open_local
from talos.rpc.proxy.raw import RawCall
from talos.rpc.proxy.roles import check_roles


class Router:
    """Authorizes, routes and counts. Make it on asyncio; ``sockets`` replace those of the table.

    ``maintenance`` is true while the machine has no config and serves unauthenticated callers.
    """

    def __init__(
        self, sockets: Mapping[str, Path] | None = None, *, reply_memory: int = REPLY_MEMORY
    ) -> None:
        self.maintenance = False
        self._counts = CallCounts()
        self._reply_memory = ClientQuota(reply_memory, "large replies", WIDE_WINDOWS)
        self._channels: dict[Owner, LocalChannel] = {
            owner: open_local(str((sockets or {}).get(owner.name, owner.socket))) for owner in OWNERS
        }

    async def handle(self, call: RawCall) -> Status:
        """Pass one call on."""
        began, code = time.monotonic(), Code.CANCELLED
        try:
            status = await self._pass_on(call)
            code = status.code
        except RpcError as error:
            code = error.code
            raise
        finally:
            self._counts.add(call.method, code, time.monotonic() - began)
        return status

    async def _pass_on(self, call: RawCall) -> Status:
        roles = roles_of(call.metadata)
        check_roles(call.method, roles, maintenance=self.maintenance)
        owner = owner_of(call.method)
        if self.maintenance and owner.needs_config:
            raise RpcError(Code.UNIMPLEMENTED, "API is not implemented in maintenance mode")
        return await forward(
            _WithCounts(call, self._counts) if call.method == READ_METHOD else call,
            self._channels[owner],
            call.metadata,
            to=owner.name,
            memory=self._reply_memory,
            client=caller_of(call.metadata),
        )

    def close(self) -> None:
        """Close the connections to the daemons."""
        for channel in self._channels.values():
            channel.close()


@dataclass(frozen=True, slots=True)
class _WithCounts:
    """A call whose reply gets the counts of calls beside what PID 1 has counted."""

    call: RawCall
    counts: CallCounts

    @property
    def method(self) -> str:
        return self.call.method

    @property
    def metadata(self) -> Metadata:
        return self.call.metadata

    def time_remaining(self) -> float | None:
        return self.call.time_remaining()

    async def receive(self) -> bytes | None:
        return await self.call.receive()

    async def send_headers(self, metadata: Metadata) -> None:
        await self.call.send_headers(metadata)

    async def send(self, message: bytes) -> None:
        await self.call.send(message + self.counts.encode())


def roles_of(metadata: Iterable[tuple[str, str | bytes]]) -> frozenset[str]:
    """The caller's roles."""
    return frozenset(value for key, value in metadata if key == ROLE and isinstance(value, str))


def caller_of(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The address of the client at apid, which its part of the memory for replies is counted by."""
    return next((value for key, value in metadata if key == CALLER and isinstance(value, str)), "")
