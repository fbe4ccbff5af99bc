"""The graph of controllers, their inputs and outputs, as the API shows it."""

from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.inspect import inspect_pb2
from talos.api.rpc import Call, Service
from talos.resource.controller.access import InputStrength
from talos.resource.controller.controller import Controller

type Edge = inspect_pb2.ControllerDependencyEdge

GRAPH_METHOD = "/inspect.InspectService/ControllerRuntimeDependencies"

_INPUTS = {
    InputStrength.WEAK: inspect_pb2.INPUT_WEAK,
    InputStrength.STRONG: inspect_pb2.INPUT_STRONG,
    InputStrength.DESTROY_READY: inspect_pb2.INPUT_DESTROY_READY,
}


def dependencies(controllers: Sequence[Controller]) -> list[Edge]:
    """An edge for every declared input and output, ordered by controller."""
    edges: list[Edge] = []
    for controller in sorted(controllers, key=lambda item: item.name):
        edges.extend(
            inspect_pb2.ControllerDependencyEdge(
                controller_name=controller.name,
                edge_type=inspect_pb2.OUTPUT_SHARED if output.shared else inspect_pb2.OUTPUT_EXCLUSIVE,
                resource_type=output.kind.type,
            )
            for output in controller.outputs
        )
        edges.extend(
            inspect_pb2.ControllerDependencyEdge(
                controller_name=controller.name,
                edge_type=_INPUTS[item.strength],
                resource_namespace=item.effective_namespace,
                resource_type=item.kind.type,
                resource_id=item.id or "",
            )
            for item in controller.inputs
        )
    return edges


def make_inspect_service(edges: Callable[[], Awaitable[Sequence[Edge]]]) -> Service:
    """``inspect.InspectService`` over the edges that ``edges`` finds at each call."""

    async def answer(_request: Empty, _call: Call) -> inspect_pb2.ControllerRuntimeDependenciesResponse:
        message = inspect_pb2.ControllerRuntimeDependency(edges=await edges())
        return inspect_pb2.ControllerRuntimeDependenciesResponse(messages=[message])

    descriptor = inspect_pb2.DESCRIPTOR.services_by_name["InspectService"]
    return Service(descriptor, {"ControllerRuntimeDependencies": answer})
