"""Logs of a node as bytes: a service's or container's, and the kernel's."""

from collections.abc import AsyncGenerator

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import DmesgRequest, LogsRequest
from talos.client.namespaces import container_place
from talos.client.session import Session
from talos.talosctl.client.command import raise_error


async def read_log(
    session: Session, node: str, id: str, *, is_kubernetes: bool = False, follow: bool = False, tail: int = -1
) -> AsyncGenerator[bytes]:
    """A log by pieces, as they come; of its last ``tail`` lines, or of all. RpcError."""
    namespace, driver = container_place(is_kubernetes=is_kubernetes)
    request = LogsRequest(namespace=namespace, id=id, driver=driver, follow=follow, tail_lines=tail)
    async with session.stream(node, "/machine.MachineService/Logs", request, Data) as chunks:
        async for chunk in chunks:
            raise_error(chunk)
            yield chunk.bytes


async def read_kernel_log(
    session: Session, node: str, *, follow: bool = False, tail: bool = False
) -> AsyncGenerator[bytes]:
    """The kernel's log line by line; with ``tail`` only what comes from now on. RpcError."""
    request = DmesgRequest(follow=follow, tail=tail)
    async with session.stream(node, "/machine.MachineService/Dmesg", request, Data) as messages:
        async for message in messages:
            raise_error(message)
            yield message.bytes if message.bytes.endswith(b"\n") else message.bytes + b"\n"
