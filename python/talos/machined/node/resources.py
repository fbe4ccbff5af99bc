"""What machined itself tells about the machine in the State, once per boot."""

from functools import partial

from google.protobuf.message import Message

from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.api.definitions.runtime_pb2 import (
    BootIDSpec,
    DevicesStatusSpec,
    KernelCmdlineSpec,
    VersionSpec,
)
from talos.resource import kinds
from talos.resource.changes import modify
from talos.resource.kind import Kind
from talos.resource.state import State
from talos.system.files import Files
from talos.system.version import get_version

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
PRODUCT = "Talos"
IDENTITY_OWNER = "cluster.NodeIdentityController"
"""Another id may be found later, on the disk."""
BOOT_CONTROLLER = "runtime.BootController"
"""Owner of what is written here."""
PLATFORM_CONFIG_ID = "active"


async def describe_machine(
    state: State, *, files: Files, node_id: str, cmdline: str, platform: PlatformConfigSpec
) -> None:
    """Who this is, what runs on it, and how it was started."""
    boot_id = files.read(BOOT_ID_FILE).strip()
    identity = partial(_replace, by=IdentitySpec(node_id=node_id))
    await modify(state, kinds.IDENTITY, "local", identity, owner=IDENTITY_OWNER)
    await _write(state, kinds.BOOT_ID, "boot-id", BootIDSpec(boot_id=boot_id))
    await _write(state, kinds.KERNEL_CMDLINE, "cmdline", KernelCmdlineSpec(cmdline=cmdline))
    await _write(state, kinds.VERSION, "version", VersionSpec(version=get_version().tag, name=PRODUCT))
    await _write(state, kinds.PLATFORM_METADATA, "platformmetadata", platform.metadata)
    await _write(state, kinds.PLATFORM_CONFIG, PLATFORM_CONFIG_ID, platform)


async def describe_foreign_devices(state: State) -> None:
    """Somebody else has made the devices and named the links: nobody waits for udevd."""
    await _write(state, kinds.DEVICES_STATUS, "devices", DevicesStatusSpec(ready=True))


async def _write[S: Message](state: State, kind: Kind[S], id: str, spec: S) -> None:
    await modify(state, kind, id, partial(_replace, by=spec), owner=BOOT_CONTROLLER)


def _replace(spec: Message, *, by: Message) -> None:
    spec.CopyFrom(by)
