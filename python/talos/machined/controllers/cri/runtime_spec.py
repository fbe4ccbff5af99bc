"""BaseRuntimeSpecConfig: the OCI runtime spec that every container starts from."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.struct_pb2 import Struct

from talos.api.definitions.cri_pb2 import BaseRuntimeSpecConfigSpec
from talos.config.active import read_config
from talos.config.documents.cri.base_runtime_spec import CRIBaseRuntimeSpecConfig
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

DEFAULT, OVERRIDES = "default", "overrides"
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
_MASKED = (
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
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_HARDENED = ("nosuid", "noexec", "nodev")
_MOUNTS: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("/proc", "proc", "proc", _HARDENED),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    ),
    ("/dev/shm", "tmpfs", "shm", (*_HARDENED, "mode=1777", "size=65536k")),
    ("/dev/mqueue", "mqueue", "mqueue", _HARDENED),
    ("/sys", "sysfs", "sysfs", (*_HARDENED, "ro")),
    ("/run", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
)


class RuntimeSpecConfigController(Reconciler):
    """MachineConfig → BaseRuntimeSpecConfig: what containerd starts from, and the user's changes to it."""

    name = "cri.RuntimeSpecConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.BASE_RUNTIME_SPEC_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the default and, if there are any, the changes."""
        config = await read_config(runtime)
        document = config.find(CRIBaseRuntimeSpecConfig) if config else None
        async with runtime.track_outputs():
            await runtime.put(kinds.BASE_RUNTIME_SPEC_CONFIG, DEFAULT, _make_spec(make_default_spec()))
            if document and document.overrides:
                await runtime.put(kinds.BASE_RUNTIME_SPEC_CONFIG, OVERRIDES, _make_spec(document.overrides))


def make_default_spec() -> dict[str, Any]:
    """The defaults of containerd, without limits of resources, which are Kubernetes' to set."""
    capabilities = list(CAPABILITIES)
    return {
        "ociVersion": "1.2.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": target, "type": kind, "source": source, "options": list(options)}
            for target, kind, source, options in _MOUNTS
        ],
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "cgroupsPath": "/default",
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
        },
    }


def _make_spec(value: Any) -> BaseRuntimeSpecConfigSpec:
    struct = Struct()
    struct.update(value)
    return BaseRuntimeSpecConfigSpec(object=struct)
