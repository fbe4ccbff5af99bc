"""The services of ``sidero.link``, by which machines get their link and use it, and a sink of events."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from talos.api.siderolink.events_pb2 import EventRequest, EventResponse
from talos.api.siderolink.provision_pb2 import ProvisionRequest, ProvisionResponse
from talos.api.siderolink.wireguard_pb2 import PeerPacket
from talos.serving.endpoint import Endpoint
from talos.serving.grpcio import listen
from talos.siderolink.registry import SERVER, RefusedError, Registry, WrongTokenError, make_stream_peer
from talos.siderolink.tunnel import Tunnels
from talos.system.logging import Log

PORT = 4000
_MAX_REQUEST = 64 * 1024
"""Bytes."""
_NOT_SHOWN = re.compile(r"[^\w.:/+-]")
_SHOWN = 128
"""Characters of what a machine sends."""

type Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the API listens; for machines, the key of its WireGuard and where that is reached.

    ``relayed`` is where this server reaches it, for packets that come over gRPC.
    """

    endpoint: Endpoint
    public_key: str
    wireguard: Sequence[str]
    relayed: tuple[str, int]


class LinkServer:
    """Made, started and stopped on asyncio."""

    def __init__(self, settings: Settings, registry: Registry, log: Log) -> None:
        self._settings, self._registry, self._log = settings, registry, log
        self._tunnels = Tunnels(settings.relayed, log)
        self.port = 0

    async def start(self) -> None:
        """Listen; UserError when that is not possible."""
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MAX_REQUEST)]
        )
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        services: tuple[tuple[str, str, Any, Any, Any, Any], ...] = (
            (
                "sidero.link.ProvisionService",
                "Provision",
                unary,
                self.provision,
                ProvisionRequest,
                ProvisionResponse,
            ),
            (
                "sidero.link.WireGuardOverGRPCService",
                "CreateStream",
                stream,
                self._tunnels.create_stream,
                PeerPacket,
                PeerPacket,
            ),
            ("events.EventSinkService", "Publish", unary, self.publish, EventRequest, EventResponse),
        )
        for service, name, make, method, request, reply in services:
            handler: grpc.RpcMethodHandler[Any, Any] = make(
                method, request.FromString, reply.SerializeToString
            )
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {name: handler}),)
            )
        self.port = listen(self._server, self._settings.endpoint)
        await self._server.start()

    async def stop(self) -> None:
        """Take no new calls, and end the open ones."""
        await self._server.stop(0)

    def describe(self) -> dict[str, object]:
        """Where it listens, for the log."""
        return {"port": self.port, "tls": self._settings.endpoint.tls is not None}

    async def provision(self, request: ProvisionRequest, context: Context) -> ProvisionResponse:
        """The machine's end of the link, and this one."""
        try:
            address = self._registry.join(request.node_uuid, request.node_public_key, request.join_token)
        except WrongTokenError as error:
            return await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except RefusedError as error:
            return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        self._log.info(
            "provisioned",
            uuid=_show(request.node_uuid),
            address=str(address.ip),
            key=request.node_public_key,
            version=_show(request.talos_version),
        )
        endpoints, stream_peer = list(self._settings.wireguard), ""
        # The order on the wire, as upstream's: the first and the last are exchanged.
        endpoints[0], endpoints[-1] = endpoints[-1], endpoints[0]
        if request.wireguard_over_grpc:
            stream_peer = make_stream_peer(request.node_uuid)
            self._tunnels.admit(stream_peer)
            endpoints = [stream_peer]
        return ProvisionResponse(
            server_endpoint=endpoints,
            server_public_key=self._settings.public_key,
            node_address_prefix=str(address),
            server_address=str(SERVER.ip),
            grpc_peer_addr_port=stream_peer,
        )

    async def publish(self, request: EventRequest, context: Context) -> EventResponse:
        """An event of a machine that has this server as its sink."""
        kind = request.data.type_url.rpartition("/")[2]
        self._log.info("event", peer=_show(context.peer()), kind=_show(kind), id=_show(request.id))
        return EventResponse()


def _show(text: str) -> str:
    return _NOT_SHOWN.sub("?", text[:_SHOWN])
