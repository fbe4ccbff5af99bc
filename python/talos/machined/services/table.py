"""The table of services."""

from collections.abc import Mapping
from pathlib import Path

from talos.machined.node.oom import DEBUG
from talos.machined.services.containerd import CONTAINERD
from talos.machined.services.cri import CRI
from talos.machined.services.daemons import make_daemon_service
from talos.machined.services.etcd import ETCD_SERVICE
from talos.machined.services.health import HealthCheck, MethodProbe
from talos.machined.services.kubelet import KUBELET_SERVICE
from talos.machined.services.sandboxd import SANDBOXD_SERVICE
from talos.machined.services.spec import Directory, InProcess, ServiceSpec
from talos.process.daemons import DAEMONS, MACHINE_SOCKET, MACHINED, ROUTERD
from talos.system.cgroups import MIB, Limits

MACHINE_DIRECTORY = Directory(path=str(Path(MACHINE_SOCKET).parent), gid=ROUTERD.uid, mode=0o2750)
"""Where PID 1 serves its API to routerd."""

GROUPS: Mapping[str, Limits] = {
    "system": Limits(minimum=128 * MIB, low=256 * MIB, millicores=1500, swap=True),
    "podruntime": Limits(minimum=340 * MIB, low=936 * MIB, millicores=4000),
    DEBUG: Limits(millicores=250, swap=True),
    "podruntime/shim": Limits(minimum=48 * MIB, low=96 * MIB, millicores=500),
}
"""Groups that only hold other groups: the limits of children are capped by these."""

VERSION_METHOD = "/machine.MachineService/Version"

SERVICES = (
    ServiceSpec(
        id=MACHINED,
        start=InProcess(),
        health=HealthCheck(probe=MethodProbe(MACHINE_SOCKET, VERSION_METHOD)),
        group="init",
        limits=Limits(minimum=96 * MIB, low=192 * MIB, millicores=2000),
    ),
    CONTAINERD,
    SANDBOXD_SERVICE,
    CRI,
    KUBELET_SERVICE,
    *map(make_daemon_service, DAEMONS),
    ETCD_SERVICE,
)
"""Every service of the node. The State is there before the first of them starts."""
