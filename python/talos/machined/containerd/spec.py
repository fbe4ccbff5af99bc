"""What a container of the system is to be, and the OCI runtime spec that follows from it.

https://github.com/opencontainers/runtime-spec
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from talos.images.manifest import ImageConfig
from talos.machined.containerd.seccomp import make_seccomp
from talos.system.errors import UserError

OCI_VERSION = "1.1.0"
SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"
"""The type URL under which containerd keeps a runtime spec."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
)
"""Those of containerd's default."""
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    "/proc/scsi",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_HARDENED = ("nosuid", "noexec", "nodev")
_DEVPTS = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")
NAMESPACES = ("pid", "ipc", "uts", "mount", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """So many ids from ``host`` on are those from ``container`` on inside."""

    container: int
    host: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount in a container; by default a folder or file of the node that can't be written."""

    target: str
    source: str
    type: str = "bind"
    options: tuple[str, ...] = ("rbind", "ro")
    uids: tuple[IdRange, ...] = ()
    gids: tuple[IdRange, ...] = ()
    """Owners of files as the container sees them."""


DEFAULT_MOUNTS = (
    Mount(target="/proc", type="proc", source="proc", options=_HARDENED),
    Mount(
        target="/dev",
        type="tmpfs",
        source="tmpfs",
        options=("nosuid", "strictatime", "mode=755", "size=65536k"),
    ),
    Mount(target="/dev/pts", type="devpts", source="devpts", options=_DEVPTS),
    Mount(target="/dev/shm", type="tmpfs", source="shm", options=(*_HARDENED, "mode=1777", "size=65536k")),
    Mount(target="/dev/mqueue", type="mqueue", source="mqueue", options=_HARDENED),
    Mount(target="/sys", type="sysfs", source="sysfs", options=(*_HARDENED, "ro")),
    Mount(
        target="/run",
        type="tmpfs",
        source="tmpfs",
        options=("nosuid", "strictatime", "mode=755", "size=65536k"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container of the system.

    ``rootfs`` is a folder of the node that is its root in place of an image; ``image`` is only a name then.
    ``arguments`` follow the image's entrypoint; ``argv`` replaces both. The image's user and environment
    count where nothing is given here. ``host_namespaces`` are those of the node that it stays in
    (``network``, ``pid``, …). ``mounts`` come after :data:`DEFAULT_MOUNTS`, of which one with the same
    target is replaced.
    ``devices``: may it use every device? ``propagation`` is that of its root (``shared``, ``rslave``).
    Limits of memory and processor are those of the service's group.
    """

    image: str
    rootfs: str = ""
    argv: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    mounts: tuple[Mount, ...] = ()
    capabilities: tuple[str, ...] = ()
    host_namespaces: frozenset[str] = frozenset({"network"})
    devices: bool = False
    read_only_root: bool = True
    no_new_privileges: bool = True
    masked: tuple[str, ...] = MASKED
    read_only: tuple[str, ...] = READ_ONLY
    propagation: str = ""
    is_filtered: bool = True
    """Whether it is held to containerd's default filter of system calls, as its capabilities widen it."""
    has_terminal: bool = False
    """Whether its input and output are a terminal."""


def make_oci_spec(spec: ContainerSpec, image: ImageConfig, group: str) -> dict[str, Any]:
    """The runtime spec. ``group`` is the container's control group, from the root of the node's groups."""
    argv = spec.argv or (*image.entrypoint, *(spec.arguments or image.command))
    if not argv:
        raise UserError("it has no command", where=f"image {spec.image}")
    environment = {"PATH": PATH, **image.environment, **spec.environment}
    uid, gid = _find_user(spec, image)
    capabilities = list(spec.capabilities)
    targets = {mount.target for mount in spec.mounts}
    mounts = (*(mount for mount in DEFAULT_MOUNTS if mount.target not in targets), *spec.mounts)
    document: dict[str, Any] = {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": spec.has_terminal,
            "user": {"uid": uid, "gid": gid, "additionalGids": list(spec.groups)},
            "args": list(argv),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": image.directory,
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "noNewPrivileges": spec.no_new_privileges,
        },
        "root": {"path": "rootfs", "readonly": spec.read_only_root},
        "mounts": make_mounts(mounts),
        "linux": {
            "cgroupsPath": f"/{group}",
            "resources": {"devices": [{"allow": spec.devices, "access": "rwm"}]},
            "namespaces": [{"type": kind} for kind in NAMESPACES if kind not in spec.host_namespaces],
            "maskedPaths": list(spec.masked),
            "readonlyPaths": list(spec.read_only),
        },
    }
    if spec.is_filtered:
        document["linux"]["seccomp"] = make_seccomp(spec.capabilities)
    if spec.propagation:
        document["linux"]["rootfsPropagation"] = spec.propagation
    return document


def make_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """Mounts as the runtime spec has them."""
    return [
        {
            "destination": mount.target,
            "type": mount.type,
            "source": mount.source,
            "options": list(mount.options),
            **({"uidMappings": [_make_range(one) for one in mount.uids]} if mount.uids else {}),
            **({"gidMappings": [_make_range(one) for one in mount.gids]} if mount.gids else {}),
        }
        for mount in mounts
    ]


def _make_range(ids: IdRange) -> dict[str, int]:
    return {"containerID": ids.container, "hostID": ids.host, "size": ids.size}


def _find_user(spec: ContainerSpec, image: ImageConfig) -> tuple[int, int]:
    """Uid and gid: of the spec, else of the image, whose names would have to be looked up inside of it."""
    user, _, group = image.user.partition(":")
    if spec.uid is None and not (user.isdecimal() or not user):
        raise UserError(f"its user {user!r} is no number", where=f"image {spec.image}")
    uid = spec.uid if spec.uid is not None else int(user or 0)
    if spec.gid is not None:
        return uid, spec.gid
    return uid, int(group) if spec.uid is None and group.isdecimal() else uid
