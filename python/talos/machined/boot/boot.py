"""The boot from top to bottom; the phases of its sequences are those of upstream."""

import importlib
import signal
from contextlib import aclosing, suppress
from dataclasses import replace

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.machined.boot import filesystems
from talos.machined.boot.machine import Machine
from talos.machined.boot.make_machine import BootContext, make_machine
from talos.machined.boot.phases.boot import make_boot
from talos.machined.boot.phases.initialize import make_initialize
from talos.machined.boot.power import finish
from talos.machined.boot.sequence import SequenceReplacedError, TaskFailedError
from talos.machined.controllers.runtime.own_memory import OWN_GROUP, OWN_MEMORY
from talos.machined.logs.feed import make_feed_service
from talos.machined.node import resources
from talos.machined.node.key_requests import make_key_service
from talos.machined.node.ports.power import SequenceLockedError
from talos.machined.platform.platform import CLOUD
from talos.machined.services.daemons import make_directories, make_state_directory
from talos.machined.services.kubelet import IMAGES_DIRECTORY
from talos.machined.services.process_start import make_directory
from talos.machined.services.table import GROUPS, MACHINE_DIRECTORY, SERVICES
from talos.process.callers import make_state_limits
from talos.process.config_view import make_view
from talos.process.daemons import DAEMONS, DaemonSpec
from talos.process.grants import Grants, load_grants, make_guard
from talos.process.run import Daemon
from talos.resource.builtin import register_builtin
from talos.resource.controller.runtime import LOGGER as CONTROLLER_LOGGER
from talos.resource.remote.service import make_state_service
from talos.rpc.server import serve
from talos.system import kernel
from talos.system.acpi import POWER_BUTTON, watch_acpi
from talos.system.cgroups import Limits
from talos.system.errors import UserError
from talos.system.logging import collect_library_logs
from talos.system.power import PowerAction
from talos.upgrade.release.initramfs import EXTENSIONS, LAYERS, SHOWN
from talos.upgrade.state import Phase

INSTALL_MODULE = "talos.machined.boot.phases.install"
"""Loaded only where something may be installed."""
FAILURE_DELAY = 10.0
"""Seconds for reading why the machine reboots."""


async def boot(context: BootContext, daemon: Daemon) -> None:
    """Boot until all services are up, then run until a power sequence ends the machine."""
    async with trio.open_nursery() as nursery:
        filesystems.make_system_directories()
        machine = make_machine(context, daemon, nursery)
        watch_children(machine)
        collect_controllers_log(machine)
        make_groups(machine)
        keep_in_memory(machine)
        await register_builtin(machine.state)
        await describe_machine(machine)
        await start_supervision(machine)
        await nursery.start(serve_state, machine)
        nursery.start_soon(end_on_signal, machine)
        if machine.platform.has_kernel:
            nursery.start_soon(end_on_power_button, machine)
        try:
            await run_sequences(machine)
        except SequenceReplacedError:
            machine.log.info("the boot sequence was replaced by a power sequence")
        except TaskFailedError as error:
            await end_after_failure(machine, error)
        await trio.sleep_forever()


def watch_children(machine: Machine) -> None:
    """Reap children on every SIGCHLD."""
    machine.daemon.bridge.loop.add_signal_handler(signal.SIGCHLD, machine.reaper.drain)
    machine.reaper.drain()


def collect_controllers_log(machine: Machine) -> None:
    """Collect the records of libraries and of the controller runtime in one separate log."""
    collect_library_logs(machine.controllers_log, verbose=CONTROLLER_LOGGER)


def make_groups(machine: Machine) -> None:
    """Create the control groups of all services and leave the root group, as version 2 demands."""
    groups = machine.ports.groups
    try:
        groups.leave_root(OWN_GROUP)
        # A machine's kernel never ends PID 1: at a maximum it would only stop.
        own = Limits(high=OWN_MEMORY) if machine.platform.has_kernel else Limits(maximum=OWN_MEMORY)
        groups.create(OWN_GROUP, replace(own, swap=True))
        for path, granted in GROUPS.items():
            groups.create(path, granted)
        for spec in SERVICES:
            if spec.group:
                groups.create(spec.group, spec.limits)
    except OSError as error:
        machine.log.warning("control groups could not be set up", reason=str(error))


def keep_in_memory(machine: Machine) -> None:
    """Keep what PID 1 and its daemons run in memory, also when others take all of it.

    The control groups' minimum does not: files that were read before PID 1 had a group are the root's.
    """
    if not machine.platform.has_kernel:
        return
    try:
        kernel.keep_in_memory()
    except OSError as error:
        machine.log.warning("PID 1 is not kept in memory", reason=str(error))


async def describe_machine(machine: Machine) -> None:
    """Apply kernel parameters, and publish the resources that stay the same for the whole boot."""
    machine.params.apply({})
    machine.show_identity(machine.identity)
    layers = SHOWN / EXTENSIONS / LAYERS
    if layers.is_file():
        machine.etc.write(LAYERS, layers.read_text(encoding="utf-8"), mode=0o444)
    await resources.describe_machine(
        machine.state,
        files=machine.ports.files,
        node_id=machine.identity.node_id,
        cmdline=machine.platform.cmdline,
        platform=machine.platform.load_network(),
        is_cloud=machine.platform.mode == CLOUD,
    )
    if not machine.platform.has_kernel:
        await resources.describe_foreign_devices(machine.state)


async def start_supervision(machine: Machine) -> None:
    """Run the supervisor and replace the zygote whenever it ends."""
    machine.nursery.start_soon(machine.supervisor.run)
    machine.nursery.start_soon(machine.zygote.supervise, machine.log.error)


async def serve_state(
    machine: Machine, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the State to the daemons, each on a socket of its own; ready when all sockets listen.

    The directories of all other sockets are made, too: a daemon sees only those that are there at its start.
    """
    daemons = [row for row in DAEMONS if machine.platform.has_kernel or not row.needs_devices]
    directories = [one for row in daemons for one in make_directories(row)]
    for directory in (MACHINE_DIRECTORY, IMAGES_DIRECTORY, *directories):
        make_directory(directory)
    grants = load_grants()
    async with trio.open_nursery() as serving:
        async with trio.open_nursery() as starting:
            for daemon in daemons:
                starting.start_soon(serving.start, serve_daemon, machine, daemon, grants[daemon.name])
        task_status.started()


async def serve_daemon(
    machine: Machine,
    daemon: DaemonSpec,
    grants: Grants,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the State to one daemon, limited by its grants."""
    make_directory(make_state_directory(daemon))
    guard = make_guard(grants, machine.log, machine.state.usage)
    services = [make_state_service(machine.state, guard=guard, view=make_view(daemon))]
    if daemon.has_feed:
        has_kernel = machine.platform.has_kernel
        services.append(make_feed_service(machine.logs, machine.events, has_kernel=has_kernel))
    if daemon.has_keys:
        services.append(make_key_service(machine.keys))
    async with serve(
        machine.daemon,
        services,
        daemon.state_socket,
        limits=make_state_limits(daemon),
        max_message=daemon.max_message,
    ):
        task_status.started()
        await trio.sleep_forever()


async def run_sequences(machine: Machine) -> None:
    """Run initialize, install where the config requests it, and boot."""
    await machine.sequencer.run("initialize", make_initialize(machine))
    if machine.platform.has_disks:
        install = await trio.to_thread.run_sync(importlib.import_module, INSTALL_MODULE)
        await install.run_install_sequence(machine)
    await machine.sequencer.run("boot", make_boot(machine))
    machine.stage.set(enums.MACHINE_STAGE_RUNNING)


async def end_on_signal(machine: Machine) -> None:
    """Shut down on SIGTERM, which the launcher sends; reboot on SIGINT, the kernel's at ctrl-alt-del.

    Neither waits for minutes: pods get their grace, and are not moved elsewhere.
    """
    await machine.daemon.stopping.wait()
    if not machine.daemon.interrupted.is_set():
        machine.power.shutdown(force=True)
        return
    machine.log.info("ctrl-alt-del pressed")
    try:
        machine.power.reboot()
    except SequenceLockedError:
        machine.log.info("the sequence that runs ends the machine or must not be interrupted")


async def end_on_power_button(machine: Machine) -> None:
    """Shut down when the power button is pressed, also by a hypervisor or a BMC; pods get their grace."""
    try:
        async with aclosing(watch_acpi()) as events:
            async for event in events:
                if event.device_class.startswith(POWER_BUTTON):
                    machine.log.info("shutdown via ACPI received")
                    machine.power.shutdown(force=True)
                    return
                machine.log.info("ignoring ACPI event", device=event.device_class, bus=event.bus_id)
    except OSError as error:
        machine.log.info("the power button is not listened to", reason=str(error))


async def end_after_failure(machine: Machine, error: TaskFailedError) -> None:
    """Reboot after a delay in which the API still shows the reason of the failure."""
    text = f"the boot failed, rebooting in {FAILURE_DELAY:.0f} s"
    if isinstance(error.__cause__, UserError):
        machine.log.error(text, reason=str(error))
    else:
        machine.log.error(text, error=error)
    machine.stage.set(enums.MACHINE_STAGE_REBOOTING)
    if machine.upgrades.current.phase is Phase.TRIAL:
        with suppress(UserError, OSError):
            await machine.upgrades.revert(f"the boot failed: {error}")
    await trio.sleep(FAILURE_DELAY)
    await finish(PowerAction.REBOOT, machine.ports.power, machine.ports.mounts, machine.log)
