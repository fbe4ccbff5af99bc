"""BaseRuntimeSpecConfig: the OCI runtime spec that every container starts from."""

from typing import Any

from google.protobuf.struct_pb2 import Struct

from talos.api.definitions.cri_pb2 import BaseRuntimeSpecConfigSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.config.values import NOTHING
from talos.machined.containerd.spec import (
    CAPABILITIES,
    DEFAULT_MOUNTS,
    MASKED,
    NAMESPACES,
    READ_ONLY,
    make_mounts,
)
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

DEFAULT, OVERRIDES = "default", "overrides"


class RuntimeSpecConfigController(Reconciler):
    """MachineConfig → BaseRuntimeSpecConfig: what containerd starts from, and the user's changes to it."""

    name = "cri.RuntimeSpecConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.BASE_RUNTIME_SPEC_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the default and, if there are any, the changes."""
        config = await read_config(runtime)
        overrides = effective.runtime_spec_overrides(config) if config else NOTHING
        async with runtime.track_outputs():
            await runtime.put(kinds.BASE_RUNTIME_SPEC_CONFIG, DEFAULT, _make_spec(make_default_spec()))
            if overrides:
                await runtime.put(kinds.BASE_RUNTIME_SPEC_CONFIG, OVERRIDES, _make_spec(overrides))


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
        "mounts": make_mounts(DEFAULT_MOUNTS),
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "cgroupsPath": "/default",
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READ_ONLY),
        },
    }


def _make_spec(value: Any) -> BaseRuntimeSpecConfigSpec:
    struct = Struct()
    struct.update(value)
    return BaseRuntimeSpecConfigSpec(object=struct)
