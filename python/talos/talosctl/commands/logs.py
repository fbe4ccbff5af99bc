"""Commands that print logs: ``talosctl logs``, ``dmesg``."""

from collections.abc import AsyncGenerator

from talos.api.common.common_pb2 import ContainerDriver, Data
from talos.api.machine.machine_pb2 import DmesgRequest, LogsRequest
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import raise_error, run_streams
from talos.talosctl.client.complete import complete_logs
from talos.talosctl.client.flags import CLIENT_FLAGS, DRIVER, INSECURE_FLAGS
from talos.talosctl.client.session import Session

CRI_NAMESPACE, SYSTEM_NAMESPACE = "k8s.io", "system"


def run_logs(invocation: Invocation) -> int:
    """Print a service's or container's log."""
    flags = invocation.flags
    is_kubernetes = flags.is_set("kubernetes")
    request = LogsRequest(
        namespace=CRI_NAMESPACE if is_kubernetes else SYSTEM_NAMESPACE,
        id=invocation.args[0],
        driver=ContainerDriver.CRI if is_kubernetes else ContainerDriver.CONTAINERD,
        follow=flags.is_set("follow"),
        tail_lines=flags.number("tail"),
    )

    async def read(session: Session, node: str) -> AsyncGenerator[bytes]:
        async with session.stream(node, "/machine.MachineService/Logs", request, Data) as chunks:
            async for chunk in chunks:
                raise_error(chunk)
                yield chunk.bytes

    return run_streams(invocation, read)


LOGS = Command(
    name="logs",
    usage="<service name>",
    summary="Show the log of a service",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        DRIVER,
        Flag(name="follow", short="f", type=Type.BOOL, default="false", help="go on as the log grows"),
        Flag(name="tail", type=Type.INT32, default="-1", help="only this many last lines, -1 for all"),
    ),
    least=1,
    most=1,
    run=run_logs,
    complete=complete_logs,
)


def run_dmesg(invocation: Invocation) -> int:
    """Print the kernel's log."""
    flags = invocation.flags
    request = DmesgRequest(follow=flags.is_set("follow"), tail=flags.is_set("tail"))

    async def read(session: Session, node: str) -> AsyncGenerator[bytes]:
        async with session.stream(node, "/machine.MachineService/Dmesg", request, Data) as messages:
            async for message in messages:
                raise_error(message)
                yield message.bytes if message.bytes.endswith(b"\n") else message.bytes + b"\n"

    return run_streams(invocation, read)


DMESG = Command(
    name="dmesg",
    summary="Show the kernel's log",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(name="follow", short="f", type=Type.BOOL, default="false", help="go on as the log grows"),
        Flag(name="tail", type=Type.BOOL, default="false", help="with --follow: only what comes from now on"),
    ),
    run=run_dmesg,
)
