"""The containerd instances of a node: one for the system, one for Kubernetes."""

from contextlib import AbstractAsyncContextManager

from talos.api.rpc import Code, DuplexTransport, RpcError
from talos.machined.api.pump import in_thread
from talos.machined.containerd.client import CRI_SOCKET, PODS, SYSTEM, SYSTEM_SOCKET
from talos.machined.node.ports.node import Node

SOCKETS = {
    SYSTEM: SYSTEM_SOCKET,
    PODS: CRI_SOCKET,
}


def get_socket(namespace: str) -> str:
    """The socket of the instance that holds a namespace; INVALID_ARGUMENT for an unknown one."""
    socket = SOCKETS.get(namespace)
    if socket is None:
        known = ", ".join(SOCKETS)
        raise RpcError(Code.INVALID_ARGUMENT, f'namespace "{namespace}" is not known, use one of: {known}')
    return socket


async def is_running(node: Node, namespace: str) -> bool:
    """Whether the instance of a namespace has been started."""
    return await in_thread(node.ports.files.exists, get_socket(namespace))


async def connect_to(node: Node, socket: str) -> AbstractAsyncContextManager[DuplexTransport]:
    """A channel to the instance behind a socket; UNAVAILABLE when it doesn't run."""
    if not await in_thread(node.ports.files.exists, socket):
        # Without this the connection would be tried until the caller's deadline.
        name = next(name for name, path in SOCKETS.items() if path == socket)
        raise RpcError(Code.UNAVAILABLE, f'containerd of the namespace "{name}" does not run: no {socket}')
    return node.connect(socket)
