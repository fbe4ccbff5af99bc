"""The discovery server as one object: the ports, the state behind them and its garbage collection."""

import asyncio
import time
from dataclasses import dataclass, field

import grpc
import grpc.aio

from talos.discovery.clusters import Clusters
from talos.discovery.limits import BURST, MAX_REQUEST, REQUESTS_PER_SECOND, Capacity
from talos.discovery.metrics import format_metrics, serve_metrics
from talos.discovery.service import ClusterService
from talos.rpc.port.rates import Rates
from talos.serving.endpoint import Endpoint
from talos.serving.grpcio import listen
from talos.system.errors import UserError

PORT = 3000
METRICS_PORT = 2122
"""As of the public service."""

STREAMS = 32
"""Open calls of one connection; a node has a watch and one more."""

CALLS = 100_000
"""Open calls of all connections."""

KEEPALIVE = 180
"""Seconds of silence after which a connection is probed, so that a watch of a node that is gone ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server is started with.

    An empty ``metrics_host`` is every address; a negative ``metrics_port`` is none. ``gc_interval`` is in
    seconds.
    """

    endpoint: Endpoint
    metrics_host: str = ""
    metrics_port: int = METRICS_PORT
    redirect: str = ""
    gc_interval: float = 60.0
    capacity: Capacity = field(default_factory=Capacity)


class DiscoveryServer:
    """Made, started and stopped on asyncio."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clusters = Clusters(time.monotonic, settings.capacity)
        rates = Rates(REQUESTS_PER_SECOND, BURST)
        self._service = ClusterService(self._clusters, rates, settings.redirect)
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics: asyncio.Server | None = None
        self.port = 0
        self.metrics_port = 0

    async def start(self) -> None:
        """Listen; UserError when that is not possible."""
        chosen = self._settings
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_REQUEST),
                ("grpc.max_metadata_size", 8 * 1024),
                ("grpc.max_concurrent_streams", STREAMS),
                # Clients probe every 180 seconds, and may do so every 10.
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.keepalive_time_ms", KEEPALIVE * 1000),
            ],
            maximum_concurrent_rpcs=CALLS,
        )
        self._server.add_generic_rpc_handlers((self._service.make_handler(),))
        self.port = listen(self._server, chosen.endpoint)
        await self._server.start()
        if chosen.metrics_port >= 0:
            try:
                self._metrics = await serve_metrics(
                    chosen.metrics_host, chosen.metrics_port, self.describe_metrics
                )
            except OSError as error:
                raise UserError(
                    f"can't listen: {error.strerror}", where=f"metrics port {chosen.metrics_port}"
                ) from None
            self.metrics_port = int(self._metrics.sockets[0].getsockname()[1])
        collector = asyncio.create_task(self._collect())
        self._tasks.add(collector)

    def describe_metrics(self) -> str:
        """The metrics of now."""
        return format_metrics(self._clusters.counts, self._service)

    async def stop(self, grace: float = 1.0) -> None:
        """Take no new calls, give the open ones ``grace`` seconds, end the rest."""
        for task in self._tasks:
            task.cancel()
        if self._metrics is not None:
            self._metrics.close()
        await self._server.stop(grace)

    def describe(self) -> dict[str, object]:
        """Where it listens, for the log."""
        tls = self._settings.endpoint.tls is not None
        return {"port": self.port, "tls": tls, "metrics_port": self.metrics_port}

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self._settings.gc_interval)
            self._clusters.collect()
