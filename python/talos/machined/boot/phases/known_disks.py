"""Waiting until all disks are known, before something is erased, written or started that depends on them."""

from collections.abc import Awaitable, Callable, Sequence

import trio

from talos.disks.volumes.requests import explain_meta, wait_for_meta
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.state import State
from talos.system.block.sysfs import Sysfs
from talos.system.logging import Log

REPEAT = 30.0
"""Seconds between two reminders."""


async def wait_until_known(state: State, log: Log, sysfs: Sysfs, *, held_up: str) -> None:
    """Wait until all disks are known, without limit; log periodically which are not.

    A read of a broken disk may take minutes. To go on would keep what the owner ordered erased, or take a
    machine for one without a system. To reboot may, too: the order may be for one boot only. ``held_up`` is
    what has to wait, such as ``nothing is installed``.
    """

    async def wait_for_devices() -> None:
        await wait_for(state, *ids.DEVICES_STATUS, lambda status: status.spec.ready)

    async def remind() -> None:
        known = {disk.id for disk in await state.list(kinds.DISK)}
        there = await trio.to_thread.run_sync(list_disks, sysfs)
        log.warning(
            f"{held_up} until udevd has read all disks; detach one that is broken",
            waiting_for=", ".join(name for name in there if name not in known) or "the kernel's first disk",
        )

    await _wait(wait_for_devices, remind)


async def wait_for_installation(state: State, log: Log, sysfs: Sysfs, *, held_up: str) -> None:
    """As :func:`wait_until_known`, and until it is known whether there is a META, on an array, too."""
    await wait_until_known(state, log, sysfs, held_up=held_up)

    async def remind() -> None:
        text = f"{held_up} until it is known whether the system is installed"
        log.warning(text, waiting_for=await explain_meta(state))

    await _wait(lambda: wait_for_meta(state), remind)


async def _wait(wait: Callable[[], Awaitable[None]], remind: Callable[[], Awaitable[None]]) -> None:
    while True:
        with trio.move_on_after(REPEAT) as scope:
            await wait()
        if not scope.cancelled_caught:
            return
        await remind()


def list_disks(sysfs: Sysfs) -> Sequence[str]:
    """The names of the kernel's disks, without those that software makes."""
    devices = sysfs.listing("class/block")
    return [one.kernel_name for one in devices if one.has("device") and not one.has("partition")]
