"""``talos.probe.ProbeService``: what the node reaches."""

from collections.abc import Generator
from contextlib import contextmanager

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Call, Code, RpcError, Send, Service
from talos.dnsd.probes.dns_query import Querier
from talos.dnsd.probes.ping import run_ping
from talos.dnsd.probes.traceroute import run_traceroute

MAX_CALLS = 8
"""Calls at a time."""


class ProbeService:
    """The handlers, which share a bound."""

    def __init__(self, querier: Querier | None = None) -> None:
        self._querier = querier or Querier()
        self._calls = 0

    def make_service(self) -> Service:
        """The service to be served."""
        descriptor = pb.DESCRIPTOR.services_by_name["ProbeService"]
        return Service(descriptor, {"Ping": self.ping, "Traceroute": self.trace, "DNSQuery": self.query})

    @contextmanager
    def _count(self) -> Generator[None]:
        if self._calls >= MAX_CALLS:
            raise RpcError(
                Code.RESOURCE_EXHAUSTED, f"{MAX_CALLS} probes run on this node: try again when one has ended"
            )
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    async def ping(self, request: pb.PingRequest, call: Call, send: Send) -> None:
        """Packets and a summary."""
        with self._count():
            await run_ping(request, call, send)

    async def trace(self, request: pb.TracerouteRequest, call: Call, send: Send) -> None:
        """The hops to a host."""
        with self._count():
            await run_traceroute(request, call, send)

    async def query(self, request: pb.DNSQueryRequest, _call: Call) -> pb.DNSQueryReply:
        """What a DNS server answers."""
        with self._count():
            return await self._querier.run(request)
