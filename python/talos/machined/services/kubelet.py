"""The kubelet as a service: a container that sees the node."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import trio
import yaml
from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.k8s_pb2 import KubeletSpecSpec, KubeletStatusSpec
from talos.api.definitions.proto_pb2 import LinuxIDMapping
from talos.api.definitions.proto_pb2 import Mount as ExtraMount
from talos.api.definitions.secrets_pb2 import KubeletSpec
from talos.api.internal.kubelet_pb2 import DrainResponse
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.config.static_pods import MANIFESTS
from talos.machined.containerd.spec import ContainerSpec, IdRange, Mount
from talos.machined.node.ports.services import Services, ServiceState
from talos.machined.services.conditions import ResourceReady, make_volume_ready
from talos.machined.services.cri import NETWORK_READY
from talos.machined.services.health import Connect, HealthCheck, HttpProbe
from talos.machined.services.kubelet_credentials import refresh_credentials
from talos.machined.services.spec import (
    ApiAction,
    Directory,
    RunContainer,
    ServiceContext,
    ServiceSpec,
    read_own_variables,
)
from talos.pki.certificate import join_certificates
from talos.process.daemons import KUBED, KUBELET_BUS, KUBELET_IMAGES
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.objects import to_plain
from talos.system.cgroups import MIB, Limits, read_memory_limit
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.system.logging import Log
from talos.system.proc.meminfo import limit_meminfo

KUBELET = "kubelet"
HEALTH_CHECK_INTERVAL = 5.0
"""Seconds. The kubelet reports by it what is wrong with itself, too."""
HEALTH_PORT = 10248
FOLDER = Path("/etc/kubernetes")
VERSION = "kubelet/version"
"""The annotation of KubeletStatus with what the kubelet was started with."""
STATE = "/var/lib/kubelet"
PKI = f"{STATE}/pki"
IDENTIFY, DRAIN = "/talos.internal.Kubelet/Identify", "/talos.internal.Kubelet/Drain"
DRAIN_TIMEOUT = 390.0
"""Seconds; kubed waits a minute until the node is cordoned, then five until it is empty."""
KUBECONFIG = FOLDER / "kubeconfig-kubelet"
CREDENTIAL_PROVIDERS = FOLDER / "kubelet-credentialproviderconfig.yaml"
CREDENTIAL_PROGRAMS = "/usr/local/lib/kubelet/credentialproviders"
"""Where an extension puts the programs of credential providers."""
MEMINFO = FOLDER / "meminfo"
# In the order of their numbers (linux/capability.h).
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
NODE_PROC = Mount(target="/proc", source="/proc", options=("rbind", "rprivate", "rw"))
"""The node's own, where the kernel is that of the machine below: its boot id shows a restart, and what is
read-only to the node is so to the kubelet."""
BUS_FOLDER = "/system/dbus"
"""Where the kubelet finds the system bus."""
IMAGES_DIRECTORY = Directory(path=str(Path(KUBELET_IMAGES).parent), mode=0o700)
"""Where PID 1 serves it what it pulls images by."""
WITHHELD = frozenset({"SYS_BOOT", "SYS_MODULE"})
"""As upstream: restarting and loading drivers is the system's."""
_SHARED, _READ_WRITE = ("rbind", "rshared", "rw"), ("rbind", "rw")
MOUNTS = (
    Mount(target="/dev", source="/dev", options=_READ_WRITE),
    Mount(target="/sys", source="/sys", options=_READ_WRITE),
    Mount(target="/run", source="/run", options=_SHARED),
    Mount(target="/lib/modules", source="/lib/modules"),
    Mount(target="/etc/machine-id", source="/etc/machine-id"),
    Mount(target="/etc/os-release", source="/etc/os-release"),
    Mount(target="/etc/hosts", source="/etc/hosts"),
    # Options of all NFS volumes, which a config may replace.
    Mount(target="/etc/nfsmount.conf", source="/etc/nfsmount.conf"),
    Mount(target="/etc/ssl/certs", source="/etc/ssl/certs"),
    Mount(target="/etc/kubernetes", source="/etc/kubernetes", options=_READ_WRITE),
    Mount(target="/etc/cni", source="/etc/cni"),
    Mount(target="/etc/resolv.conf", source="/etc/resolv.conf"),
    Mount(target="/system/resolved", source="/system/resolved"),
    Mount(target=BUS_FOLDER, source=str(Path(KUBELET_BUS).parent)),
    Mount(target=IMAGES_DIRECTORY.path, source=IMAGES_DIRECTORY.path),
    Mount(target="/var/lib/containerd", source="/var/lib/containerd", options=_SHARED),
    Mount(target=STATE, source=STATE, options=_SHARED),
    # Volumes of users, which pods have as local ones.
    Mount(target="/var/mnt", source="/var/mnt", options=_SHARED),
    Mount(target="/var/log/containers", source="/var/log/containers", options=_READ_WRITE),
    Mount(target="/var/log/pods", source="/var/log/pods", options=_READ_WRITE),
)


async def drain(connect: Connect, services: Services, log: Log) -> None:
    """Have kubed move this node's pods elsewhere, if a kubelet runs any. RpcError, OSError."""
    if not any(one.id == KUBELET and one.state is ServiceState.RUNNING for one in services.list()):
        return
    async with connect(KUBED.socket) as transport:
        reply = await transport.unary(DRAIN, Empty(), DrainResponse, timeout=DRAIN_TIMEOUT)
    if reply.remaining:
        log.warning("pods stay on this node", pods=list(reply.remaining))


async def make_kubelet(context: ServiceContext) -> ContainerSpec:
    """Write the files that the kubelet begins with, and describe its container."""
    # What starts containers is not loaded before one is started.
    from talos.machined.services.sandbox_image import pull_sandbox_image

    await pull_sandbox_image(context)
    spec = (await context.state.get(*ids.KUBELET_SPEC)).spec
    secret = (await context.state.get(*ids.KUBELET_SECRET)).spec
    files = {
        FOLDER / "kubelet.yaml": yaml.safe_dump(to_plain(spec.config)).encode(),
        FOLDER / "bootstrap-kubeconfig": make_bootstrap_kubeconfig(secret).encode(),
        FOLDER / "pki/ca.crt": join_certificates(secret.accepted_c_as),
    }
    arguments = list(spec.args)
    if spec.HasField("credential_provider_config"):
        files[CREDENTIAL_PROVIDERS] = yaml.safe_dump(to_plain(spec.credential_provider_config)).encode()
        arguments += [
            f"--image-credential-provider-bin-dir={CREDENTIAL_PROGRAMS}",
            f"--image-credential-provider-config={CREDENTIAL_PROVIDERS}",
        ]
    extra = make_extra_mounts(spec.extra_mounts)
    await trio.to_thread.run_sync(make_sources, extra)
    mounts = [*MOUNTS, *extra]
    if await trio.Path(CREDENTIAL_PROGRAMS).is_dir():
        mounts.append(Mount(target=CREDENTIAL_PROGRAMS, source=CREDENTIAL_PROGRAMS))
    if not context.platform.has_kernel:
        mounts.insert(0, NODE_PROC)
    memory = await trio.to_thread.run_sync(read_memory_limit)
    if memory is not None:
        # A container sees the host's memory, and the scheduler would fill it with pods.
        text = await trio.Path("/proc/meminfo").read_text(encoding="ascii")
        files[MEMINFO] = limit_meminfo(text, memory).encode()
        mounts.append(Mount(target="/proc/meminfo", source=str(MEMINFO)))
    for path, content in files.items():
        await trio.to_thread.run_sync(_write, path, content)
    await trio.Path(MANIFESTS).mkdir(mode=0o700, exist_ok=True)
    await put(
        context.state,
        *ids.KUBELET_STATUS,
        KubeletStatusSpec(image=spec.image),
        annotations={VERSION: make_version(spec, secret)},
    )
    await trio.to_thread.run_sync(refresh_credentials, KUBECONFIG, Path(PKI), secret)
    status = await trio.Path("/proc/self/status").read_text(encoding="utf-8")
    return ContainerSpec(
        image=spec.image,
        argv=("/usr/local/bin/kubelet", *arguments),
        environment={
            **await read_own_variables(context.state),
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={BUS_FOLDER}/{Path(KUBELET_BUS).name}",
        },
        uid=0,
        gid=0,
        mounts=tuple(mounts),
        capabilities=find_capabilities(status),
        host_namespaces=frozenset({"network", "pid", "ipc", "uts"}),
        devices=True,
        is_filtered=False,
        no_new_privileges=False,
        # It makes a missing folder of a volume here first; containerd then makes that of the node.
        read_only_root=False,
        masked=(),
        read_only=(),
        propagation="rshared",
    )


def make_version(spec: KubeletSpecSpec, secret: KubeletSpec) -> str:
    """What differs whenever a kubelet with these has to be another process."""
    texts = (one.SerializeToString(deterministic=True) for one in (spec, secret))
    return hashlib.sha256(b"".join(len(text).to_bytes(4) + text for text in texts)).hexdigest()[:32]


def find_capabilities(status: str) -> tuple[str, ...]:
    """What the kubelet may do: all that PID 1 may, by its ``/proc/PID/status``, but for what is withheld.

    It mounts and moves processes between groups. runc refuses a capability that the node itself lacks.
    """
    line = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    held = int(line.split()[1], 16)
    names = (name for number, name in enumerate(CAPABILITIES) if held >> number & 1)
    return tuple(f"CAP_{name}" for name in names if name not in WITHHELD)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o755, exist_ok=True)
    replace_durably(path, [content], mode=0o600)


def make_bootstrap_kubeconfig(secret: KubeletSpec) -> str:
    """With this the kubelet requests its first certificate."""
    return format_kubeconfig(
        Kubeconfig(
            server=secret.endpoint.full_path,
            tls_server_name=secret.endpoint_tls_server_name,
            authority=join_certificates(secret.accepted_c_as),
            cluster="local",
            user="kubelet",
            context="local",
            token=f"{secret.bootstrap_token_id}.{secret.bootstrap_token_secret}",
        )
    )


def make_extra_mounts(mounts: Sequence[ExtraMount]) -> list[Mount]:
    """The mounts of the user's config."""
    return [
        Mount(
            target=mount.destination,
            source=mount.source,
            type=mount.type or "bind",
            options=tuple(mount.options) or ("rbind", "ro"),
            uids=_make_ranges(mount.uid_mappings),
            gids=_make_ranges(mount.gid_mappings),
        )
        for mount in mounts
    ]


def _make_ranges(mappings: Sequence[LinuxIDMapping]) -> tuple[IdRange, ...]:
    return tuple(IdRange(container=one.container_id, host=one.host_id, size=one.size) for one in mappings)


def make_sources(mounts: Sequence[Mount]) -> None:
    """Make the folders of the user's mounts that are missing, as upstream. UserError."""
    for mount in mounts:
        if mount.type == "bind" and not Path(mount.source).exists():
            try:
                Path(mount.source).mkdir(mode=0o700, parents=True)
            except OSError as error:
                hint = "choose one below /var, such as /var/mnt/NAME"
                message = f"{mount.source} can't be made: {error.strerror}"
                raise UserError(message, where="machine.kubelet.extraMounts", hint=hint) from None


KUBELET_SERVICE = ServiceSpec(
    id=KUBELET,
    start=RunContainer(make=make_kubelet),
    depends=("cri", KUBED.name),
    conditions=(
        NETWORK_READY,
        make_volume_ready("KUBELET"),
        ResourceReady(text="nodename", kind=ids.NODENAME[0], id=ids.NODENAME[1]),
        ResourceReady(text="kubelet secrets", kind=ids.KUBELET_SECRET[0], id=ids.KUBELET_SECRET[1]),
        ResourceReady(text="kubelet spec", kind=ids.KUBELET_SPEC[0], id=ids.KUBELET_SPEC[1]),
    ),
    health=HealthCheck(probe=HttpProbe(HEALTH_PORT, "/healthz"), period=HEALTH_CHECK_INTERVAL),
    directories=(Directory(path=STATE, mode=0o700), Directory(path=PKI)),
    group="podruntime/kubelet",
    limits=Limits(minimum=96 * MIB, low=192 * MIB, millicores=1000),
    oom_score_adj=-450,
    actions=frozenset({ApiAction.START, ApiAction.RESTART}),
)
