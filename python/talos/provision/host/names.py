"""What a cluster's things are called on this machine, so that they can be found without any record."""

import hashlib

from talos.provision.host.cgroups import LAUNCHER, TOP
from talos.provision.store import ClusterFolder


def digest(folder: ClusterFolder) -> str:
    """Distinguishes clusters of one name in two state directories."""
    return hashlib.sha256(bytes(folder.path)).hexdigest()[:8]


def host_link(folder: ClusterFolder) -> str:
    """The cluster's interface on the host; the kernel allows 15 characters."""
    return f"talos-{digest(folder)}"


def cluster_group(folder: ClusterFolder) -> tuple[str, ...]:
    """The control group that holds everything of the cluster."""
    return TOP, f"{folder.path.name}-{digest(folder)}"


def launcher_group(folder: ClusterFolder) -> tuple[str, ...]:
    """The launcher's own."""
    return *cluster_group(folder), LAUNCHER


def node_group(folder: ClusterFolder, node: str) -> tuple[str, ...]:
    """One node's."""
    return *cluster_group(folder), node
