"""A port's connection without a network."""

import asyncio
import itertools
import json
from typing import Any, cast

from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.meter import DEFAULT_RATES, FrameRates
from talos.rpc.port.connection import PortConnection
from talos.rpc.port.limits import Limits
from talos.rpc.port.refusals import Refusals
from talos.rpc.port.tls import Client
from talos.rpc.protocol import OK, Peer, Status
from talos.system.logging import Log

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""With the settings that belong to it."""


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        del high


class World:
    """One connection; its calls wait for ever."""

    def __init__(self, header_size: int = 1000, rates: FrameRates = DEFAULT_RATES) -> None:
        self.lines: list[str] = []
        self.transport = Transport()
        self.memory = ClientQuota(total=200_000, what="large requests")
        log = Log(write=self.lines.append)
        self.connection = PortConnection(
            self.handle,
            admit=lambda _: Client(peer=Peer(address="10.5.0.9:1"), key="a"),
            limits=Limits(header_size=header_size, rates=rates),
            memory=self.memory,
            calls=ClientQuota(total=1000, what="calls"),
            refusals=Refusals(log),
            log=log,
            leave=lambda _: None,
        )
        self.connection.connection_made(cast("asyncio.Transport", self.transport))

    async def handle(self, call: object) -> Status:
        del call
        await asyncio.Event().wait()
        return OK

    def feed(self, data: bytes, step: int = 1 << 20) -> None:
        for piece in itertools.batched(data, step, strict=False):
            self.connection.data_received(bytes(piece))

    @property
    def refusals(self) -> list[str]:
        return [cast("dict[str, Any]", json.loads(line)).get("reason", "") for line in self.lines]

    def end(self) -> None:
        self.connection.abort()
        self.connection.connection_lost(None)
