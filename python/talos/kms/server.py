"""The service ``sidero.kms.KMSService``: AES-256-GCM, with a key of its own for each node."""

import hmac
import os
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from talos.api.kms.kms_pb2 import Request, Response
from talos.serving.endpoint import Endpoint
from talos.serving.grpcio import listen

PORT = 4050
"""As of upstream's server."""
SERVICE = "sidero.kms.KMSService"
KEY_SIZE = 32
"""Bytes of the server's key, and of those that it seals."""
_NONCE_SIZE = 12
_TAG_SIZE = 16
_MAX_REQUEST = 4096
"""Bytes, as are the two before."""
_MAX_UUID = 64
"""Characters."""

type Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server is started with; ``key`` has 32 bytes."""

    endpoint: Endpoint
    key: bytes = field(repr=False)


class KeyServer:
    """Made, started and stopped on asyncio."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.port = 0

    async def start(self) -> None:
        """Listen; UserError when that is not possible."""
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MAX_REQUEST)]
        )
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.unary_unary_rpc_method_handler(method, Request.FromString, Response.SerializeToString)
            for name, method in (("Seal", self.seal), ("Unseal", self.unseal))
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        self.port = listen(self._server, self._settings.endpoint)
        await self._server.start()

    async def stop(self) -> None:
        """Take no new calls, and end the open ones."""
        await self._server.stop(0)

    def describe(self) -> dict[str, object]:
        """Where it listens, for the log."""
        return {"port": self.port, "tls": self._settings.endpoint.tls is not None}

    async def seal(self, request: Request, context: Context) -> Response:
        """A key as the node may keep it: nonce, ciphertext, tag."""
        cipher = await self._admit(request, context, KEY_SIZE)
        nonce = os.urandom(_NONCE_SIZE)
        return Response(data=nonce + cipher.encrypt(nonce, request.data, None))

    async def unseal(self, request: Request, context: Context) -> Response:
        """The key of what a node has kept."""
        cipher = await self._admit(request, context, _NONCE_SIZE + KEY_SIZE + _TAG_SIZE)
        nonce, sealed = request.data[:_NONCE_SIZE], request.data[_NONCE_SIZE:]
        try:
            return Response(data=cipher.decrypt(nonce, sealed, None))
        except InvalidTag:
            text = "the data were not sealed here for this node"
            return await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)

    async def _admit(self, request: Request, context: Context, size: int) -> AESGCM:
        if len(request.data) != size:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "incorrect data length")
        if not 0 < len(request.node_uuid) <= _MAX_UUID:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the node has no UUID")
        return AESGCM(hmac.digest(self._settings.key, request.node_uuid.encode(), "sha256"))
