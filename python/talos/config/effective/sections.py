"""The sections of the main document; empty ones where it has none."""

from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.documents.v1alpha1.network import NetworkConfig
from talos.config.model import Config

_NO_MACHINE = MachineConfig()
_NO_CLUSTER = ClusterConfig()
_NO_NETWORK = NetworkConfig()


def find_machine(config: Config) -> MachineConfig:
    """What is below ``machine``."""
    return config.machine or _NO_MACHINE


def find_cluster(config: Config) -> ClusterConfig:
    """What is below ``cluster``."""
    return config.cluster or _NO_CLUSTER


def find_network(config: Config) -> NetworkConfig:
    """What is below ``machine.network``."""
    return find_machine(config).network or _NO_NETWORK
