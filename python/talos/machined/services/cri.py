"""containerd, for Kubernetes: pods, and the system's containers that live on the disk (etcd, the kubelet)."""

from typing import cast

from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import StatusSpec
from talos.machined.containerd.client import CRI_ROOT, CRI_SOCKET
from talos.machined.services.conditions import ResourceReady
from talos.machined.services.containerd import DEAD_AFTER, START_LIMIT, write_file
from talos.machined.services.health import HealthCheck, ServingProbe
from talos.machined.services.spec import Directory, Execute, ServiceContext, ServiceSpec
from talos.resource import ids
from talos.resource.resource import Resource
from talos.system.cgroups import MIB, Limits

CONFIG = "/etc/cri/containerd.toml"
HOSTS = "/etc/cri/conf.d/hosts"
"""Where containerd looks for a registry's mirrors: a folder for each registry."""
SANDBOX_IMAGE = "registry.k8s.io/pause:3.10.2"


def _is_ready(resource: Resource[Message]) -> bool:
    status = cast("StatusSpec", resource.spec)
    return status.address_ready and status.hostname_ready and status.etc_files_ready


NETWORK_READY = ResourceReady(
    text="network", kind=ids.NETWORK_STATUS[0], id=ids.NETWORK_STATUS[1], predicate=_is_ready
)


async def _configure(context: ServiceContext) -> None:
    write_file(CONFIG, make_config(restrict_oom_score=not context.platform.has_kernel))


def make_config(*, restrict_oom_score: bool) -> str:
    """Containerd with the plugin for Kubernetes.

    ``restrict_oom_score``: the kernel refuses scores below the launcher's, so no container may have one.
    """
    return f"""version = 2
root = "{CRI_ROOT}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{CRI_SOCKET}"

[debug]
format = "json"

[plugins."io.containerd.internal.v1.opt"]
path = "{CRI_ROOT}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
restrict_oom_score_adj = {str(restrict_oom_score).lower()}

[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{HOSTS}"
"""


CRI = ServiceSpec(
    id="cri",
    start=Execute(argv=("/usr/bin/containerd", "--address", CRI_SOCKET, "--config", CONFIG)),
    conditions=(NETWORK_READY,),
    health=HealthCheck(probe=ServingProbe(CRI_SOCKET), silence=DEAD_AFTER, start_limit=START_LIMIT),
    prepare=_configure,
    directories=(Directory(path="/run/containerd", mode=0o711),),
    group="podruntime/runtime",
    limits=Limits(minimum=196 * MIB, low=392 * MIB, millicores=1000),
    oom_score_adj=-500,
)
