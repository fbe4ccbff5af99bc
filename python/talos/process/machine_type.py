"""What kind of node this is, for handlers of calls that differ by that."""

from talos.api.machine_types import is_control_plane
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.resource import ids
from talos.resource.state import NotFoundError, State


async def require_control_plane(state: State, api: str) -> None:
    """Refuse a call on a worker, or before the node has a type; ``api`` is the name for the caller."""
    kind = await _read_type(state)
    if kind == config_pb2.UNKNOWN:
        raise RpcError(Code.UNIMPLEMENTED, f"machine type is not set, cannot use {api} API")
    if not is_control_plane(kind):
        raise RpcError(Code.UNIMPLEMENTED, f"{api} is only available on control plane nodes")


async def is_on_control_plane(state: State) -> bool:
    """Whether this node runs the control plane; not before it has a type."""
    return is_control_plane(await _read_type(state))


async def _read_type(state: State) -> int:
    try:
        return (await state.get(*ids.MACHINE_TYPE)).spec.machine_type
    except NotFoundError:
        return config_pb2.UNKNOWN
