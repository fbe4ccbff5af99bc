"""What of a node helps to understand it later: files of a support bundle, each with how it is made."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from talos.api.common.common_pb2 import ContainerDriver, Data
from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.machine.machine_pb2 import (
    DiskStatsResponse,
    DmesgRequest,
    LogsContainersResponse,
    LogsRequest,
    MemoryResponse,
    MountsResponse,
    ProcessesResponse,
    ReadRequest,
    ServiceInfo,
    ServiceList,
    ServiceListResponse,
    VersionResponse,
)
from talos.api.rpc import RpcError
from talos.api.specs import parse_spec
from talos.client.collected import within
from talos.client.namespaces import KUBERNETES, SYSTEM
from talos.client.resources import DEFINITION_TYPE, META_NAMESPACE, list_resources
from talos.client.session import Session
from talos.resource.kinds import META_KEY
from talos.system.errors import UserError
from talos.system.proc.cmdline import hide_secrets
from talos.system.urls import HIDDEN
from talos.talosctl.client.command import parts, raise_error
from talos.talosctl.commands import support_tables as tables
from talos.talosctl.commands.inspect import draw_graph, read_edges
from talos.talosctl.commands.support_kubernetes import find_containers
from talos.talosctl.output.resource import format_yaml
from talos.talosctl.output.yaml_text import dump_yaml
from talos.upgrade.state import SHOWN

type Make = Callable[[], Awaitable[bytes]]

CONTROLLERS = "controller-runtime"
"""The log of PID 1's controllers."""
_MACHINE = "/machine.MachineService/"


def _dump(message: Message) -> str:
    return dump_yaml(
        MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )


_FILES = {
    "devices": "/proc/bus/pci/devices",
    "diskstats": "/proc/diskstats",
    "loadavg": "/proc/loadavg",
    "meminfo": "/proc/meminfo",
    "pressure/cpu": "/proc/pressure/cpu",
    "pressure/io": "/proc/pressure/io",
    "pressure/memory": "/proc/pressure/memory",
}
"""Files of the node that are copied as they are, by their names in the bundle."""
_REPLIES: dict[str, tuple[str, type[Message], Callable[[Any], str]]] = {
    "summary": ("Version", VersionResponse, tables.format_summary),
    "processes": ("Processes", ProcessesResponse, tables.format_processes),
    "mounts": ("Mounts", MountsResponse, tables.format_mounts),
    "io": ("DiskStats", DiskStatsResponse, tables.format_disks),
    "memory.yaml": ("Memory", MemoryResponse, _dump),
}
"""Calls whose replies are kept, and as which text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file of the bundle."""

    name: str
    make: Make


async def find_items(session: Session, node: str) -> list[Item]:
    """What there is to collect of a node; raises RpcError when it doesn't answer."""
    services, logs, types = await asyncio.gather(
        _services(session, node), _logs(session, node), _types(session, node)
    )
    return [
        Item(name="dmesg.log", make=lambda: _read(session, node, "Dmesg", DmesgRequest())),
        *(_reply_item(session, node, name, *row) for name, row in _REPLIES.items()),
        *(_file_item(session, node, name, path) for name, path in _FILES.items()),
        Item(name="cmdline", make=lambda: _read_cmdline(session, node)),
        Item(name="dependencies.dot", make=lambda: _dependencies(session, node)),
        *(_state_item(service) for service in services),
        *(_log_item(session, node, name) for name in logs),
        *(_resource_item(session, node, kind) for kind in types),
        *(await _pod_log_items(session, node)),
    ]


async def _services(session: Session, node: str) -> list[ServiceInfo]:
    reply = await session.unary(node, _MACHINE + "ServiceList", Empty(), ServiceListResponse)
    return [service for part in parts(reply, ServiceList) for service in part.services]


async def _logs(session: Session, node: str) -> list[str]:
    reply = await session.unary(node, _MACHINE + "LogsContainers", Empty(), LogsContainersResponse)
    return sorted({name for message in reply.messages for name in message.ids})


async def _types(session: Session, node: str) -> list[ResourceDefinitionSpec]:
    found = await list_resources(session, node, META_NAMESPACE, DEFINITION_TYPE)
    specs = (parse_spec(ResourceDefinitionSpec, row) for row in found)
    # A bundle is given away: what holds keys stays on the node.
    return [spec for spec in specs if spec.sensitivity == ResourceDefinitionSpec.NON_SENSITIVE]


async def _read(session: Session, node: str, method: str, request: Message) -> bytes:
    chunks: list[bytes] = []
    async with session.stream(node, _MACHINE + method, request, Data) as messages:
        async for message in within(messages, "it is left out"):
            raise_error(message)
            chunks.append(message.bytes)
    return b"".join(chunks)


def _file_item(session: Session, node: str, name: str, path: str) -> Item:
    return Item(name=name, make=lambda: _read(session, node, "Read", ReadRequest(path=path)))


async def _read_cmdline(session: Session, node: str) -> bytes:
    """Without the passwords, tokens and configs that the node hides from its readers."""
    text = await _read(session, node, "Read", ReadRequest(path="/proc/cmdline"))
    return hide_secrets(text.decode(errors="replace")).encode()


def _log_item(session: Session, node: str, name: str) -> Item:
    request = LogsRequest(namespace=SYSTEM, id=name, driver=ContainerDriver.CONTAINERD, tail_lines=-1)
    # Where those who read upstream's archives look for it.
    file = f"{name}.log" if name == CONTROLLERS else f"service-logs/{name}.log"
    return Item(name=file, make=lambda: _read(session, node, "Logs", request))


async def _pod_log_items(session: Session, node: str) -> list[Item]:
    try:
        containers = await find_containers(session, node)
    except RpcError as error:
        failure = error

        async def fail() -> bytes:
            raise failure

        return [Item(name="kubernetes-logs", make=fail)]
    return [_pod_log_item(session, node, container) for container in containers]


def _pod_log_item(session: Session, node: str, container: str) -> Item:
    request = LogsRequest(namespace=KUBERNETES, id=container, driver=ContainerDriver.CRI, tail_lines=-1)
    name = container.replace(":", "_")
    return Item(name=f"kubernetes-logs/{name}.log", make=lambda: _read(session, node, "Logs", request))


def _state_item(service: ServiceInfo) -> Item:
    async def make() -> bytes:
        return tables.format_state(service).encode()

    return Item(name=f"service-logs/{service.id}.state", make=make)


def _reply_item(
    session: Session, node: str, name: str, method: str, reply: type[Message], show: Callable[[Any], str]
) -> Item:
    async def make() -> bytes:
        return show(await session.unary(node, _MACHINE + method, Empty(), reply)).encode()

    return Item(name=name, make=make)


def _resource_item(session: Session, node: str, kind: ResourceDefinitionSpec) -> Item:
    async def make() -> bytes:
        found = await list_resources(session, node, kind.default_namespace, kind.resource_type)
        if kind.resource_type == META_KEY.type:
            # An administrator sees the values, which are tokens and the like.
            for resource in found:
                if resource.metadata.id not in SHOWN:
                    resource.spec.yaml_spec = f"value: '{HIDDEN}'"
        return "---\n".join(format_yaml(node, resource) for resource in found).encode()

    return Item(name=f"resources/{kind.resource_type.lower()}.yaml", make=make)


async def _dependencies(session: Session, node: str) -> bytes:
    return ("\n".join(draw_graph(await read_edges(session, node), {})) + "\n").encode()


async def collect(
    items: Iterable[Item], workers: int, keep: Callable[[str, bytes | RpcError | UserError], None]
) -> None:
    """Make every item, so many at a time, and hand over each as soon as it is there."""
    left = iter(list(items))

    async def work() -> None:
        for item in left:
            try:
                made: bytes | RpcError | UserError = await item.make()
            except (RpcError, UserError) as error:
                made = error
            keep(item.name, made)

    await asyncio.gather(*(work() for _ in range(max(workers, 1))))
