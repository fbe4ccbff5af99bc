"""``talosctl inspect``."""

import asyncio
from collections.abc import Iterable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.inspect.inspect_pb2 import (
    ControllerDependencyEdge,
    ControllerRuntimeDependenciesResponse,
    ControllerRuntimeDependency,
    DependencyEdgeType,
)
from talos.api.rpc import RpcError
from talos.client.resources import list_resources
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.output import console

type Members = dict[tuple[str, str], list[str]]
"""Ids of the resources of a namespace and type."""


def run_dependencies(invocation: Invocation) -> int:
    """Print the graph of controllers and resources for Graphviz."""
    with_resources = invocation.flags.is_set("with-resources")

    async def call(session: Session, node: str) -> tuple[list[ControllerDependencyEdge], Members]:
        edges = await read_edges(session, node)
        return edges, await _members(session, node, edges) if with_resources else {}

    def show(node: str, answer: tuple[list[ControllerDependencyEdge], Members]) -> None:  # noqa: ARG001 - the shape of a shower
        edges, members = answer
        console.write("\n".join(draw_graph(edges, members)) + "\n")

    return run_each(invocation, call, show)


async def read_edges(session: Session, node: str) -> list[ControllerDependencyEdge]:
    """What each controller of a node reads and writes."""
    method = "/inspect.InspectService/ControllerRuntimeDependencies"
    reply = await session.unary(node, method, Empty(), ControllerRuntimeDependenciesResponse)
    return [edge for part in parts(reply, ControllerRuntimeDependency) for edge in part.edges]


async def _members(session: Session, node: str, edges: Iterable[ControllerDependencyEdge]) -> Members:
    kinds = sorted({(edge.resource_namespace, edge.resource_type) for edge in edges if edge.resource_type})

    async def ids(namespace: str, type: str) -> list[str]:
        try:
            return [row.metadata.id for row in await list_resources(session, node, namespace, type)]
        except RpcError:
            return []  # a kind this caller may not see; the graph is still worth drawing

    found = await asyncio.gather(*(ids(*kind) for kind in kinds))
    return dict(zip(kinds, found, strict=True))


def draw_graph(edges: Sequence[ControllerDependencyEdge], members: Members) -> Iterable[str]:
    """Lines of a directed graph: outputs from controller to resource, inputs the other way."""
    yield "digraph {"
    yield "  rankdir=LR;"
    for controller in sorted({edge.controller_name for edge in edges}):
        yield f'  "{controller}" [shape=box, style=filled, fillcolor=lightgrey];'
    for kind in sorted({(edge.resource_namespace, edge.resource_type) for edge in edges}):
        label = [kind[1].split(".")[0], *members.get(kind, ())]
        text = "\\n".join(name.replace('"', '\\"') for name in label)
        yield f'  "{kind[1]}" [label="{text}", shape=note];'
    for edge in edges:
        controller, resource = f'"{edge.controller_name}"', f'"{edge.resource_type}"'
        label = f'label="{edge.resource_id}"' if edge.resource_id else ""
        match edge.edge_type:
            case DependencyEdgeType.OUTPUT_EXCLUSIVE:
                yield _arrow(controller, resource, "style=bold")
            case DependencyEdgeType.OUTPUT_SHARED:
                yield _arrow(controller, resource, "style=solid")
            case DependencyEdgeType.INPUT_WEAK:
                yield _arrow(resource, controller, "style=dotted", label)
            case DependencyEdgeType.INPUT_DESTROY_READY:
                yield _arrow(resource, controller, "style=dashed", label)
            case _:
                yield _arrow(resource, controller, "style=solid", label)
    yield "}"


def _arrow(start: str, end: str, *attributes: str) -> str:
    return f"  {start} -> {end} [{', '.join(filter(None, attributes))}];"


COMMAND = Command(
    name="inspect",
    summary="Look at how the node works inside",
    inherited=CLIENT_FLAGS,
    commands=(
        Command(
            name="dependencies",
            summary="Draw which controllers read and write which resources",
            details="Prints the graph of controllers and resources in Graphviz' language.",
            example="talosctl inspect dependencies | dot -Tsvg > graph.svg",
            flags=(
                Flag(name="with-resources", type=Type.BOOL, default="false", help="name each resource, too"),
            ),
            run=run_dependencies,
        ),
    ),
)
