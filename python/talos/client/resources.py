"""Resources of a node, over the public ``cosi.resource.State``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import (
    GetRequest,
    GetResponse,
    ListRequest,
    ListResponse,
    WatchOptions,
    WatchRequest,
    WatchResponse,
)
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.client.collected import within
from talos.client.session import Session

DEFINITION_TYPE, META_NAMESPACE = "ResourceDefinitions.meta.cosi.dev", "meta"
_STATE = "/cosi.resource.State/"


async def list_resources(session: Session, node: str, namespace: str, type: str) -> list[Resource]:
    """All resources of a type."""
    return await convert_resources(session, node, namespace, type, (), lambda resource: resource)


async def get_resource(session: Session, node: str, namespace: str, type: str, id: str) -> Resource:
    """One resource."""
    request = GetRequest(namespace=namespace, type=type, id=id)
    return (await session.unary(node, _STATE + "Get", request, GetResponse)).resource


async def convert_resources[T](
    session: Session,
    node: str,
    namespace: str,
    type: str,
    ids: Sequence[str],
    make: Callable[[Resource], T],
) -> list[T]:
    """What ``make`` returns for the named ones, or for each when none is named: a message is not kept."""
    if ids:
        calls = (get_resource(session, node, namespace, type, name) for name in ids)
        return list(map(make, await asyncio.gather(*calls)))
    request = ListRequest(namespace=namespace, type=type)
    async with session.stream(node, _STATE + "List", request, ListResponse) as replies:
        found = within(replies, "name some of them")
        return [make(reply.resource) async for reply in found]


def watch(
    session: Session, node: str, namespace: str, type: str, id: str
) -> AbstractAsyncContextManager[AsyncIterator[WatchResponse]]:
    """The current state, then every change. An empty id watches the whole type."""
    request = WatchRequest(namespace=namespace, type=type, api_version=1, options=WatchOptions())
    if id:
        request.id = id
    else:
        request.options.bootstrap_contents = True
    return session.stream(node, _STATE + "Watch", request, WatchResponse)


async def find_definition(session: Session, node: str, name: str) -> ResourceDefinitionSpec:
    """The type of a name in any case, or of one of its aliases."""
    definitions = [
        (resource.metadata.id.lower(), parse_spec(ResourceDefinitionSpec, resource))
        for resource in await list_resources(session, node, META_NAMESPACE, DEFINITION_TYPE)
    ]
    lower = name.lower()
    exact = [spec for name, spec in definitions if name == lower]
    matches = exact or [
        spec for _, spec in definitions if lower in (alias.lower() for alias in spec.all_aliases)
    ]
    if not matches:
        raise RpcError(
            Code.NOT_FOUND,
            f'resource type "{name}" is not registered, `talosctl get rd` lists those that are',
        )
    if len(matches) > 1:
        names = ", ".join(sorted(spec.resource_type for spec in matches))
        raise RpcError(Code.INVALID_ARGUMENT, f'resource type "{name}" is ambiguous: {names}')
    return matches[0]
