"""What a node offers for a command's next argument. Never an error: no answer is no offer."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.machine.machine_pb2 import (
    FileInfo,
    ListRequest,
    LogsContainersResponse,
    ServiceListResponse,
)
from talos.api.rpc import RpcError
from talos.api.specs import parse_spec
from talos.client.resources import DEFINITION_TYPE, META_NAMESPACE, find_definition, list_resources
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.select import select_target

COMPLETION_TIMEOUT = 3.0
"""Seconds that completion may take."""

_SAFE = re.compile(r"[\w./:@%+=,^][\w./:@%+=,^-]*")
"""Words, for every shell, and no flags: bash puts offers into its line as they are."""


def _fetch(
    invocation: Invocation, fetch: Callable[[Session, str], Awaitable[Sequence[str]]]
) -> Sequence[str]:
    async def main() -> Sequence[str]:
        target = select_target(invocation.flags)
        if not target.nodes:
            return ()
        async with asyncio.timeout(COMPLETION_TIMEOUT), open_session(target) as session:
            names = await fetch(session, target.nodes[0])
            # Files and containers have names that pods on the node choose.
            return [name for name in names if _SAFE.fullmatch(name)]

    try:
        return asyncio.run(main())
    except (RpcError, UserError, TimeoutError):
        return ()


def complete_services(invocation: Invocation, prefix: str) -> Sequence[str]:  # noqa: ARG001 - a completer's shape
    """Ids of services."""

    async def fetch(session: Session, node: str) -> Sequence[str]:
        reply = await session.unary(node, "/machine.MachineService/ServiceList", Empty(), ServiceListResponse)
        return [service.id for part in reply.messages for service in part.services]

    return _fetch(invocation, fetch)


def complete_logs(invocation: Invocation, prefix: str) -> Sequence[str]:  # noqa: ARG001 - a completer's shape
    """Names of logs."""

    async def fetch(session: Session, node: str) -> Sequence[str]:
        path = "/machine.MachineService/LogsContainers"
        reply = await session.unary(node, path, Empty(), LogsContainersResponse)
        return [name for part in reply.messages for name in part.ids]

    return () if invocation.args else _fetch(invocation, fetch)


def complete_path(invocation: Invocation, prefix: str) -> Sequence[str]:
    """Paths on the node."""
    folder = prefix.rpartition("/")[0] + "/" if prefix.startswith("/") else "/"

    async def fetch(session: Session, node: str) -> Sequence[str]:
        request = ListRequest(root=folder)
        async with session.stream(node, "/machine.MachineService/List", request, FileInfo) as files:
            return [
                folder + info.relative_name + ("/" if info.is_dir else "")
                async for info in files
                if info.relative_name not in {"", "."} and not info.error
            ]

    return _fetch(invocation, fetch)


def complete_resources(invocation: Invocation, prefix: str) -> Sequence[str]:  # noqa: ARG001 - a completer's shape
    """Types of resources, then ids of the type."""

    async def fetch_types(session: Session, node: str) -> Sequence[str]:
        rows = await list_resources(session, node, META_NAMESPACE, DEFINITION_TYPE)
        specs = [parse_spec(ResourceDefinitionSpec, row) for row in rows]
        return [spec.display_type.lower() for spec in specs] + [
            alias for spec in specs for alias in spec.aliases
        ]

    async def fetch_ids(session: Session, node: str) -> Sequence[str]:
        spec = await find_definition(session, node, invocation.args[0])
        rows = await list_resources(session, node, spec.default_namespace, spec.resource_type)
        return [row.metadata.id for row in rows]

    return _fetch(invocation, fetch_ids if invocation.args else fetch_types)
