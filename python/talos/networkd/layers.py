"""The sources of network config; a higher layer overrides a lower one."""

from talos.api.definitions import enums_pb2
from talos.resource import ids

# The namespace of every layer's specs; merged ones are in the kinds' own, ``network``.
CONFIG_NAMESPACE = ids.NETWORK_CONFIG

_NAMES = {
    enums_pb2.CONFIG_DEFAULT: "default",
    enums_pb2.CONFIG_CMDLINE: "cmdline",
    enums_pb2.CONFIG_PLATFORM: "platform",
    enums_pb2.CONFIG_OPERATOR: "operator",
    enums_pb2.CONFIG_MACHINE_CONFIGURATION: "configuration",
}


def layered_id(layer: enums_pb2.NetworkConfigLayer, id: str) -> str:
    """The id of a spec of one layer: ``platform/eth0``."""
    return f"{_NAMES[layer]}/{id}"


ROUTE_METRIC = 1024
"""The priority of routes that name none; those of IPv6 that are not the config's have twice as much."""
