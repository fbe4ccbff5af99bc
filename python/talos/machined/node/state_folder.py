"""Where STATE is mounted, in which controllers keep what outlives the boot."""

from pathlib import Path

from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime
from talos.system.block.layout import STATE


async def find_state_folder(runtime: ControllerRuntime) -> Path | None:
    """The folder; None as long as it is not mounted. The controller's input is VolumeMountStatus."""
    for status in await runtime.list(kinds.VOLUME_MOUNT_STATUS):
        if status.spec.volume_id == STATE.label:
            return Path(status.spec.target)
    return None
