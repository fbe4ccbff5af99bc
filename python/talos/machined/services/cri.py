"""containerd, for Kubernetes: pods, and the system's containers that live on the disk (etcd, the kubelet)."""

from typing import cast

from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import StatusSpec
from talos.machined.containerd.client import CRI_SOCKET
from talos.machined.containerd.config import CONFIG, STATUS, make_config
from talos.machined.node.workloads import SANDBOXD
from talos.machined.services.conditions import ResourceReady, make_volume_ready
from talos.machined.services.containerd import MAX_SILENCE, START_TIMEOUT, write_file
from talos.machined.services.health import HealthCheck, ServingProbe
from talos.machined.services.spec import Directory, Execute, ServiceContext, ServiceSpec
from talos.resource import ids, kinds
from talos.resource.resource import Resource
from talos.system.cgroups import MIB, Limits


def _is_ready(resource: Resource[Message]) -> bool:
    status = cast("StatusSpec", resource.spec)
    return status.address_ready and status.hostname_ready and status.etc_files_ready


NETWORK_READY = ResourceReady(
    text="network", kind=ids.NETWORK_STATUS[0], id=ids.NETWORK_STATUS[1], predicate=_is_ready
)


SETTINGS_READY = ResourceReady(text="cri.toml", kind=kinds.ETC_FILE_STATUS, id=STATUS)


async def _configure(_context: ServiceContext) -> None:
    write_file(CONFIG, make_config())


CRI = ServiceSpec(
    id="cri",
    start=Execute(
        argv=("/usr/bin/containerd", "--address", CRI_SOCKET, "--config", CONFIG), is_workload=True
    ),
    depends=(SANDBOXD,),
    conditions=(NETWORK_READY, SETTINGS_READY, make_volume_ready("CRI")),
    health=HealthCheck(probe=ServingProbe(CRI_SOCKET), silence=MAX_SILENCE, start_timeout=START_TIMEOUT),
    prepare=_configure,
    directories=(Directory(path="/run/containerd", mode=0o711),),
    group="podruntime/runtime",
    limits=Limits(minimum=196 * MIB, low=392 * MIB, millicores=1000),
    oom_score_adj=-500,
)
