"""The roles of machines, in the two enums that the API has for them."""

from talos.api.definitions import enums_pb2
from talos.api.resource import config_pb2

_CONTROL_PLANE = frozenset(
    {
        config_pb2.INIT,
        config_pb2.CONTROL_PLANE,
        enums_pb2.TYPE_INIT,
        enums_pb2.TYPE_CONTROL_PLANE,
    }
)
"""The numbers of both are the same."""


def is_control_plane(machine_type: int) -> bool:
    """Whether machines of a type run the control plane."""
    return machine_type in _CONTROL_PLANE
