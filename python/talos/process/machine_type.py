"""What kind of node this is, for handlers of calls that only control plane nodes serve."""

from talos.api.machine_types import is_control_plane
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.resource import ids
from talos.resource.state import NotFoundError, State


async def require_control_plane(state: State, api: str) -> None:
    """Refuse a call on a worker, or before the node has a type; ``api`` is the name for the caller."""
    try:
        kind = (await state.get(*ids.MACHINE_TYPE)).spec.machine_type
    except NotFoundError:
        kind = config_pb2.UNKNOWN
    if kind == config_pb2.UNKNOWN:
        raise RpcError(Code.UNIMPLEMENTED, f"machine type is not set, cannot use {api} API")
    if not is_control_plane(kind):
        raise RpcError(Code.UNIMPLEMENTED, f"{api} is only available on control plane nodes")
