"""What a local cluster is: what is requested, and what is known about one that exists."""

import enum
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

DISCOVERY_PORT = 3000
MIRROR_PORT = 5000


class Role(enum.Enum):
    """What a node is for; the text is the machine type of its config."""

    CONTROL_PLANE = "controlplane"
    WORKER = "worker"


class Provider(enum.Enum):
    """What nodes are."""

    CONTAINER = "container"
    QEMU = "qemu"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of a machine; ``size`` is in bytes."""

    driver: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """One node. ``memory`` and ``disk`` are in bytes, ``cpus`` in processors; 0 is no limit.

    ``config`` is the machine config the platform hands over; empty leaves the node in
    maintenance mode. ``disk`` is that of /var in a container; a machine has ``disks``, the first for
    the system.
    """

    name: str
    role: Role
    address: IPv4Address
    config: str = ""
    cpus: float = 0.0
    memory: int = 0
    disk: int
    disks: tuple[Disk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """A cluster to be made. ``gateway`` is the host's own address in the subnet.

    ``image`` is a squashfs for containers; an ISO for machines. ``stamp`` is the archive with the identity of
    that squashfs: its version, and the keys of the releases that may replace it.
    ``services`` is the address, inside the cluster's network, of what the launcher serves to the nodes;
    ``discovery`` is whether a discovery server is among that. ``images`` is a folder of OCI archives
    that a mirror offers there, in place of the registries in their names. ``image_cache`` is a folder in the
    flat layout that containers have as their own cache of images.
    """

    name: str
    provider: Provider = Provider.CONTAINER
    subnet: IPv4Network
    gateway: IPv4Address
    services: IPv4Address
    discovery: bool = True
    mtu: int
    image: Path
    stamp: Path | None = None
    images: Path | None = None
    image_cache: Path | None = None
    nameservers: tuple[IPv4Address, ...] = ()
    time_servers: tuple[str, ...] = ()
    nodes: tuple[NodeRequest, ...]

    def interface(self, node: NodeRequest) -> IPv4Interface:
        """A node's address with the subnet's prefix length."""
        return IPv4Interface((node.address, self.subnet.prefixlen))

    @property
    def discovery_endpoint(self) -> str:
        """The URL of the cluster's own discovery server."""
        return f"http://{self.services}:{DISCOVERY_PORT}/"

    @property
    def mirror_endpoint(self) -> str:
        """The URL of the cluster's own mirror of registries."""
        return f"http://{self.services}:{MIRROR_PORT}"

    @property
    def endpoints(self) -> tuple[IPv4Address, ...]:
        """Where the API of the cluster is reached: its control plane nodes, else all."""
        control_plane = tuple(node.address for node in self.nodes if node.role is Role.CONTROL_PLANE)
        return control_plane or tuple(node.address for node in self.nodes)

    @property
    def is_balanced(self) -> bool:
        """Whether a balancer stands before several control plane nodes."""
        return sum(node.role is Role.CONTROL_PLANE for node in self.nodes) > 1

    @property
    def control_plane(self) -> IPv4Address:
        """Where nodes and users reach the control plane, whichever of its nodes run."""
        return self.services if self.is_balanced else self.endpoints[0]


class NodeState(enum.Enum):
    """What a node of a cluster does just now."""

    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One node of a cluster that exists. ``pid`` is that of its PID 1 on this machine, 0 when it has none."""

    name: str
    role: Role
    address: IPv4Address
    cpus: float
    memory: int
    disk: int
    state: NodeState
    pid: int
    console: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """A cluster that exists. ``launcher`` is the pid of the process that runs it, 0 when it has ended."""

    name: str
    provider: str
    directory: Path
    subnet: IPv4Network
    gateway: IPv4Address
    mtu: int
    image: Path
    launcher: int
    nodes: tuple[NodeInfo, ...]
