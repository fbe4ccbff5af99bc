"""Volume groups at the end of a boot."""

import trio

from talos.resource import kinds
from talos.resource.state import State
from talos.system.block.lvm import Lvm
from talos.system.errors import UserError
from talos.system.logging import Log

DEACTIVATE_TIMEOUT = 10.0
"""Seconds for all groups."""


async def deactivate_groups(state: State, lvm: Lvm, log: Log) -> None:
    """Deactivate all groups, once their filesystems are unmounted: mirrors are in step at the next boot.

    What is still in use stays active, and is logged.
    """
    with trio.move_on_after(DEACTIVATE_TIMEOUT) as scope:
        for group in await state.list(kinds.LVM_VOLUME_GROUP_STATUS):
            if group.spec.exported or group.spec.lv_count == "0":
                continue
            try:
                await lvm.deactivate(group.id)
            except UserError as error:
                log.warning(f"LVM: {error}")
    if scope.cancelled_caught:
        log.warning(f"LVM: groups are not deactivated after {DEACTIVATE_TIMEOUT:.0f} s")
