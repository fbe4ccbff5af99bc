"""Resources about the machine that machined writes once per boot."""

from collections.abc import Mapping

from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.api.definitions.runtime_pb2 import (
    BootIDSpec,
    DevicesStatusSpec,
    KernelCmdlineSpec,
    VersionSpec,
)
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.state import NotFoundError, State
from talos.system.files import Files
from talos.system.net.proxies import parse_environment
from talos.system.proc.cmdline import hide_secrets
from talos.system.version import get_version

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
PRODUCT = "Talos"
IDENTITY_OWNER = "cluster.NodeIdentityController"
"""Another id may be found later, on the disk."""
BOOT_CONTROLLER = "runtime.BootController"
"""Owner of what is written here."""


async def describe_machine(
    state: State,
    *,
    files: Files,
    node_id: str,
    cmdline: str,
    platform: PlatformConfigSpec,
    is_cloud: bool = False,
) -> None:
    """Write the machine's identity, version and boot parameters; a cloud's network when that has answered."""
    boot_id = files.read(BOOT_ID_FILE).strip()
    await put(state, *ids.IDENTITY, IdentitySpec(node_id=node_id), owner=IDENTITY_OWNER)
    await put(state, *ids.BOOT_ID, BootIDSpec(boot_id=boot_id), owner=BOOT_CONTROLLER)
    shown = KernelCmdlineSpec(cmdline=hide_secrets(cmdline))
    await put(state, *ids.KERNEL_CMDLINE, shown, owner=BOOT_CONTROLLER)
    await put(
        state, *ids.VERSION, VersionSpec(version=get_version().tag, name=PRODUCT), owner=BOOT_CONTROLLER
    )
    await put(state, *ids.PLATFORM_METADATA, platform.metadata, owner=BOOT_CONTROLLER)
    if not is_cloud:
        await put(state, *ids.PLATFORM_CONFIG, platform, owner=BOOT_CONTROLLER)


async def describe_foreign_devices(state: State) -> None:
    """Mark devices as ready: on a container the host manages them, there is no udevd."""
    await put(state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True), owner=BOOT_CONTROLLER)


async def read_variables(state: State) -> Mapping[str, str]:
    """The environment of programs, with the variables of the config; none before it is known."""
    try:
        lines = (await state.get(*ids.ENVIRONMENT)).spec.variables
    except NotFoundError:
        return {}
    return parse_environment(lines)
