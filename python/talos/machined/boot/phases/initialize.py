"""The sequence ``initialize``: from the first service to a complete config."""

import importlib
from functools import partial

import trio

from talos.disks.volumes.requests import explain_meta, request_mount, wait_for_meta, wait_until_settled
from talos.machined.boot.hardware import describe_hardware
from talos.machined.boot.machine import Machine
from talos.machined.boot.phases.disks import make_pause_phases, make_wipe_phases
from talos.machined.boot.phases.requirements import make_requirement_phases
from talos.machined.boot.sequence import Phase, Task
from talos.machined.logs.last_boot import LastBoot, read_last_boot
from talos.process import daemons
from talos.system.pstore import erase_records
from talos.system.terminal import has_screen

STATE = "STATE"
META_TIMEOUT = 120.0
"""Seconds until it has to be known whether there is a META."""
SERVE_MODULE = "talos.machined.boot.serve"
SCREEN_MODULE = "talos.machined.screen.run"


def make_initialize(machine: Machine) -> tuple[Phase, ...]:
    """The phases of the sequence."""

    async def start_early() -> None:
        machine.supervisor.start_soon(daemons.EARLY)
        if machine.platform.has_kernel:
            await describe_hardware(machine.state, machine.ports.files)

    async def start_machined() -> None:
        serve = await trio.to_thread.run_sync(importlib.import_module, SERVE_MODULE)
        await machine.nursery.start(serve.run_node, machine)
        machine.supervisor.start_soon(["machined", *daemons.LATER, "containerd", *machine.extensions])

    async def start_dashboard() -> None:
        if not (machine.platform.has_kernel and has_screen()):
            return
        screen = await trio.to_thread.run_sync(importlib.import_module, SCREEN_MODULE)
        machine.nursery.start_soon(
            screen.run_screen,
            machine.state,
            machine.ports.files,
            machine.supervisor,
            machine.platform.arguments,
            machine.log,
        )

    async def load_config() -> None:
        await request_mount(machine.state, STATE)
        if not await wait_until_settled(machine.state, STATE, machine.log):
            machine.log.info("there is no STATE to load a config from")
        await importlib.import_module(SERVE_MODULE).load_config(machine)

    meta = Phase("meta", (Task("reloadMeta", partial(reload_meta, machine)),), may_fail=True)
    return (
        *make_requirement_phases(machine),
        Phase("earlyServices", (Task("startEarlyServices", start_early),)),
        *make_wipe_phases(machine),
        Phase("machined", (Task("startMachined", start_machined),)),
        Phase("dashboard", (Task("startDashboard", start_dashboard),), may_fail=True),
        *((meta,) if machine.platform.has_disks or machine.platform.slots else ()),
        *make_pause_phases(machine),
        Phase("config", (Task("loadConfig", load_config),)),
    )


async def reload_meta(machine: Machine) -> None:
    """Find out from META whether this boot is a trial, and from what the last one left how that ended."""
    crash, slots = machine.crash, machine.platform.slots
    if slots is not None:
        cause = await trio.to_thread.run_sync(slots.read_cause)
        crash.last = LastBoot(cause=cause) if cause else None
    elif machine.platform.has_kernel:
        crash.last = await trio.to_thread.run_sync(read_last_boot)
    crash.reason = crash.last.cause if crash.last else ""
    with trio.move_on_after(META_TIMEOUT) as scope:
        await wait_for_meta(machine.state)
    if scope.cancelled_caught:
        text = f"META is not known after {META_TIMEOUT:.0f} s, going on without it"
        machine.log.error(text, reason=await explain_meta(machine.state))
        return
    if await machine.upgrades.begin(crash.last):
        crash.reason = machine.upgrades.current.reason
    if crash.reason:
        machine.log.warning("the last boot failed", reason=crash.reason)
    if crash.last is not None:  # only now: the reason outlives a power cut
        await trio.to_thread.run_sync(slots.erase_cause if slots else erase_records)
