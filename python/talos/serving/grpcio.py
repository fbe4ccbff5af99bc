"""A server of grpcio: its port, and the signal that ends it."""

import asyncio
import signal

import grpc
import grpc.aio

from talos.serving.endpoint import Endpoint
from talos.system.errors import UserError


def listen(server: grpc.aio.Server, endpoint: Endpoint) -> int:
    """Give a server its port, before it starts; the port. UserError."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host or "[::]"
    target = f"{host}:{endpoint.port}"
    try:
        if endpoint.tls is None:
            return server.add_insecure_port(target)
        pair = (endpoint.tls.key, endpoint.tls.crt)
        return server.add_secure_port(target, grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        raise UserError(
            "can't listen", where=f"address {target}", hint="is it this machine's, and the port free?"
        ) from None


async def wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM, which end the process no more."""
    received = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()
