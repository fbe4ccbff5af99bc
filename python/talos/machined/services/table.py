"""The table of services: one row each. ``cri``, ``etcd`` and ``kubelet`` join it with Kubernetes."""

from collections.abc import Mapping
from pathlib import Path

from talos.machined.services.conditions import ResourceReady
from talos.machined.services.health import GrpcHealth, HealthCheck, SocketDial, TcpDial
from talos.machined.services.spec import Directory, Execute, Facts, Fork, InProcess, ServiceSpec
from talos.resource import kinds
from talos.system import kernel
from talos.system.cgroups import MIB, Limits

RUN = "/system/run"
MACHINE_SOCKET = f"{RUN}/machined/machine.sock"
STATE_SOCKET = f"{RUN}/state/state.sock"
CONTAINERD_SOCKET = f"{RUN}/containerd/containerd.sock"
CONTAINERD_CONFIG = "/system/etc/containerd/config.toml"
CONTAINERD_ROOT = "/system/var/lib/containerd"

# /etc/passwd and /etc/group of the image.
DAEMONS_GID = 49
APID = 50
TRUSTD = 51
ROUTERD = 52
NETWORKD = 53
TIMED = 54
UDEVD = 55

MACHINED_DIRECTORIES = (
    Directory(path=f"{RUN}/machined", gid=ROUTERD, mode=0o2750),
    Directory(path=f"{RUN}/state", gid=DAEMONS_GID, mode=0o2750),
)

API_CERTIFICATE = ResourceReady(text="api certificates", kind=kinds.API_CERTIFICATE, id="api")
TRUSTD_CERTIFICATE = ResourceReady(text="trustd certificates", kind=kinds.TRUSTD_CERTIFICATE, id="trustd")

GROUPS: Mapping[str, Limits] = {
    "system": Limits(minimum=128 * MIB, low=256 * MIB, millicores=1500, swap=True),
    "podruntime": Limits(minimum=340 * MIB, low=936 * MIB, millicores=4000),
}
"""Groups that only hold other groups: what these are granted is at most what their parent is."""


def _skip_on_container(facts: Facts) -> str:
    if facts.platform.mode == "container":
        return "a container gets its devices from its launcher and may not load modules"
    return ""


async def _configure_containerd(_facts: Facts) -> None:
    write_file(CONTAINERD_CONFIG, make_containerd_config())


def write_file(path: str, text: str) -> None:
    """Write a small file in memory, with its folders."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def make_containerd_config() -> str:
    """Containerd for the system's own containers, in namespace ``system``; without Kubernetes' part."""
    return f"""version = 2
root = "{CONTAINERD_ROOT}"
state = "{RUN}/containerd"
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{CONTAINERD_SOCKET}"

[debug]
format = "json"
"""


def make_socket_directory(name: str, uid: int, caller: int) -> Directory:
    """Where a daemon's socket is; only its caller's group may come in."""
    return Directory(path=f"{RUN}/{name}", uid=uid, gid=caller, mode=0o2750)


SERVICES = (
    ServiceSpec(
        id="machined",
        start=InProcess(),
        health=HealthCheck(probe=SocketDial(MACHINE_SOCKET)),
        group="init",
        limits=Limits(minimum=96 * MIB, low=192 * MIB, millicores=2000),
    ),
    ServiceSpec(
        id="containerd",
        start=Execute(argv=("/usr/bin/containerd", "--config", CONTAINERD_CONFIG)),
        health=HealthCheck(probe=GrpcHealth(CONTAINERD_SOCKET)),
        prepare=_configure_containerd,
        directories=(Directory(path=f"{RUN}/containerd", mode=0o711),),
        group="system/runtime",
        limits=Limits(minimum=48 * MIB, low=96 * MIB, millicores=500),
        oom_score_adj=-999,
    ),
    ServiceSpec(
        id="routerd",
        start=Fork(
            module="talos.routerd.main",
            uid=ROUTERD,
            gid=ROUTERD,
            groups=(DAEMONS_GID,),
            writable=(f"{RUN}/routerd",),
        ),
        health=HealthCheck(probe=SocketDial(f"{RUN}/routerd/routerd.sock")),
        directories=(make_socket_directory("routerd", ROUTERD, APID),),
        group="system/routerd",
        limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=500),
        oom_score_adj=-998,
    ),
    ServiceSpec(
        id="apid",
        start=Fork(module="talos.apid.main", uid=APID, gid=APID, groups=(DAEMONS_GID,)),
        depends=("machined", "routerd"),
        conditions=(API_CERTIFICATE,),
        health=HealthCheck(probe=TcpDial(50000)),
        group="system/apid",
        limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=500),
        oom_score_adj=-998,
    ),
    ServiceSpec(
        id="trustd",
        start=Fork(
            module="talos.trustd.main",
            uid=TRUSTD,
            gid=TRUSTD,
            groups=(DAEMONS_GID,),
            writable=(f"{RUN}/trustd",),
        ),
        depends=("machined",),
        control_plane_only=True,
        conditions=(TRUSTD_CERTIFICATE,),
        health=HealthCheck(probe=TcpDial(50001)),
        directories=(make_socket_directory("trustd", TRUSTD, ROUTERD),),
        group="system/trustd",
        limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=128 * MIB, millicores=250),
        oom_score_adj=-998,
    ),
    ServiceSpec(
        id="networkd",
        start=Fork(
            module="talos.networkd.main",
            uid=NETWORKD,
            gid=NETWORKD,
            groups=(DAEMONS_GID,),
            capabilities=(kernel.CAP_NET_ADMIN, kernel.CAP_NET_BIND_SERVICE, kernel.CAP_NET_RAW),
            writable=(f"{RUN}/networkd", "/proc/sys/net"),
        ),
        health=HealthCheck(probe=SocketDial(f"{RUN}/networkd/networkd.sock")),
        directories=(make_socket_directory("networkd", NETWORKD, ROUTERD),),
        group="system/networkd",
        limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=250),
        oom_score_adj=-998,
    ),
    ServiceSpec(
        id="timed",
        start=Fork(
            module="talos.timed.main",
            uid=TIMED,
            gid=TIMED,
            groups=(DAEMONS_GID,),
            capabilities=(kernel.CAP_SYS_TIME,),
            writable=(f"{RUN}/timed",),
        ),
        health=HealthCheck(probe=SocketDial(f"{RUN}/timed/timed.sock")),
        directories=(make_socket_directory("timed", TIMED, ROUTERD),),
        group="system/timed",
        limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=100),
        oom_score_adj=-998,
    ),
    ServiceSpec(
        id="udevd",
        start=Fork(
            module="talos.udevd.main",
            uid=0,
            gid=0,
            groups=(DAEMONS_GID,),
            capabilities=(
                kernel.CAP_CHOWN,
                kernel.CAP_DAC_OVERRIDE,
                kernel.CAP_FOWNER,
                kernel.CAP_NET_ADMIN,
            ),
            writable=(f"{RUN}/udevd", "/dev", "/run", "/sys"),
        ),
        health=HealthCheck(
            probe=SocketDial(f"{RUN}/udevd/udevd.sock"), initial_delay=0.1, period=60, timeout=55
        ),
        skip=_skip_on_container,
        directories=(make_socket_directory("udevd", UDEVD, ROUTERD),),
        group="system/udevd",
        limits=Limits(minimum=8 * MIB, low=16 * MIB, millicores=250),
    ),
)
"""Every service of the node. The State is there before the first of them starts."""
