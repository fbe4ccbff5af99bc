"""The names that expressions in configs may use, by the setting that they belong to."""

from collections.abc import Mapping

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec, DiskSpec
from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.definitions.network_pb2 import LinkStatusSpec, ProbeStatusSpec, StatusSpec
from talos.api.definitions.runtime_pb2 import MachineStatusSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.config.cel.compile import Environment
from talos.config.cel.syntax import UInt
from talos.config.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    UINT,
    Overload,
    map_of,
    message_type,
    optional_of,
)

_UNITS = {
    **{f"{letter}B": (UINT, UInt(1000 ** (power + 1))) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}iB": (UINT, UInt(1024 ** (power + 1))) for power, letter in enumerate("KMGTPE")},
}
"""Sizes: ``GB``, ``GiB``."""
_CLASSES = {
    name: (INT, number)
    for number, name in enumerate(("Besteffort", "Burstable", "Guaranteed", "Podruntime", "System"))
}
"""Classes of control groups in the order of their importance."""

_DISK = message_type(DiskSpec)
_QOS = map_of(INT, DOUBLE)

DISK = Environment(
    variables={"disk": _DISK, "system_disk": BOOL},
    constants=_UNITS,
    example='disk.dev_path == "/dev/sda" or disk.size > 100u * GB',
)
"""One disk: ``diskSelector.match``."""

VOLUME = Environment(
    variables={"volume": message_type(DiscoveredVolumeSpec), "disk": _DISK},
    constants=_UNITS,
    example='volume.partition_label == "data"',
)
"""One volume that was found: ``volumeSelector.match``."""


def _format_address(address: bytes) -> str:
    return address.hex(":")


LINK = Environment(
    variables={"link": message_type(LinkStatusSpec)},
    functions={"mac": [Overload((BYTES,), STRING, _format_address)]},
    example='mac(link.permanent_addr) == "00:1a:2b:3c:4d:5e"',
)
"""One link: ``selector.match`` of a LinkAliasConfig."""


def _multiply(left: Mapping[int, float], right: Mapping[int, float]) -> float:
    """The scalar product of values by class."""
    return sum(value * right.get(kind, 0.0) for kind, value in left.items())


_PRESSURES = [
    f"memory_{share}_{span}" for share in ("some", "full") for span in ("avg10", "avg60", "avg300", "total")
]

OOM_TRIGGER = Environment(
    variables={
        **dict.fromkeys(_PRESSURES, DOUBLE),
        **dict.fromkeys([f"d_{name}" for name in _PRESSURES], DOUBLE),
        **dict.fromkeys([f"{delta}qos_{name}" for name in _PRESSURES for delta in ("", "d_")], _QOS),
        **{
            f"{delta}qos_memory_{amount}": _QOS
            for amount in ("current", "max", "peak")
            for delta in ("", "d_")
        },
        "time_since_trigger": DURATION,
    },
    constants={**_CLASSES, **_UNITS},
    functions={"multiply_qos_vectors": [Overload((_QOS, _QOS), DOUBLE, _multiply)]},
    example='memory_full_avg10 > 12.0 && time_since_trigger > duration("500ms")',
)
"""Memory pressure of the node: ``triggerExpression`` of an OOMConfig."""

OOM_RANKING = Environment(
    variables={
        **dict.fromkeys(("memory_max", "memory_current", "memory_peak"), optional_of(UINT)),
        "path": STRING,
        "class": INT,
    },
    constants={**_CLASSES, **_UNITS},
    example="double(memory_current.orValue(0u))",
)
"""One control group, the one with the highest number is ended first: ``cgroupRankingExpression``."""

TRIAL_CHECK = Environment(
    variables={
        "services": map_of(STRING, message_type(ServiceSpec)),
        "probes": map_of(STRING, message_type(ProbeStatusSpec)),
        "network": message_type(StatusSpec),
        "machine": message_type(MachineStatusSpec),
        "node": message_type(NodeStatusSpec),
    },
    example='services["kubelet"].healthy && node.node_ready',
)
"""Services and the config's probes by id, the status of the network, the machine and its node in Kubernetes,
all false and empty where there is none: ``cel`` of a TrialCheckConfig.
"""
