"""The phase ``ephemeral`` of a boot: /var, the volumes within it, and logs on disk."""

import trio

from talos.disks.volumes.requests import (
    find_dedicated,
    is_mounted,
    request_mount,
    wait_until_mounted,
    wait_until_settled,
)
from talos.machined.boot import filesystems
from talos.machined.boot.machine import Machine
from talos.machined.boot.sequence import Phase, Task
from talos.machined.logs.store import DIRECTORY
from talos.system.block.layout import DEDICABLE, EPHEMERAL
from talos.upgrade.state import Phase as UpgradePhase

LOG = "LOG"
DEDICATED_TIMEOUT = 60.0
"""Seconds in which volumes with partitions of their own are waited for; what needs one waits for longer."""
FLUSH_INTERVAL = 5.0
"""Seconds of a trial's logs that a reset may lose."""


def make_ephemeral_phase(machine: Machine) -> Phase:
    """The phase that waits until EPHEMERAL and the volumes beside it are mounted."""

    async def use_ephemeral() -> None:
        for volume in (*DEDICABLE, EPHEMERAL.label):  # those with partitions of their own are made first
            await request_mount(machine.state, volume)
        await wait_until_mounted(machine.state, EPHEMERAL.label, machine.log)
        dedicated = await find_dedicated(machine.state)
        filesystems.make_var_directories(dedicated, machine.log)
        filesystems.mount_opt(machine.ports.mounts)
        with trio.move_on_after(DEDICATED_TIMEOUT):
            for volume in dedicated:
                await wait_until_settled(machine.state, volume, machine.log)
        if LOG not in dedicated or await is_mounted(machine.state, LOG):
            await keep_logs(machine)
        else:
            machine.nursery.start_soon(keep_logs_late, machine)
        if machine.upgrades.is_guarded:
            machine.nursery.start_soon(flush_logs, machine)
        for finding in filesystems.check_hardening(machine.ports.mounts):
            machine.log.warning("a writable mount is not hardened", finding=finding)

    return Phase("ephemeral", (Task("mountEphemeralPartition", use_ephemeral),), may_fail=True)


async def keep_logs(machine: Machine) -> None:
    """Write logs to the disk from now on."""
    await trio.to_thread.run_sync(machine.crash.keep_last, DIRECTORY)
    machine.logs.open_files(DIRECTORY)


async def keep_logs_late(machine: Machine) -> None:
    """Keep logs in memory only until their volume is mounted."""
    await wait_until_mounted(machine.state, LOG, machine.log)
    await keep_logs(machine)


async def flush_logs(machine: Machine) -> None:
    """Have the logs of a trial on the disk, should it end without a word."""
    while machine.upgrades.current.phase is UpgradePhase.TRIAL:
        await trio.sleep(FLUSH_INTERVAL)
        await trio.to_thread.run_sync(machine.logs.flush_files)
