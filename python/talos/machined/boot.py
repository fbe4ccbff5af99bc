"""The boot, as a table of contents; the sequences' phases are those of upstream."""

import importlib
import resource as limits
import signal
from collections.abc import Iterable

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.resource import config_pb2
from talos.daemon.logging import Log, collect_library_logs
from talos.daemon.run import Daemon
from talos.daemon.server import serve
from talos.machined import filesystems, resources
from talos.machined.console import CONTROLLERS, make_console, make_sink
from talos.machined.logs import DIRECTORY
from talos.machined.machine import Machine
from talos.machined.make_machine import Beginning, make_machine
from talos.machined.power import finish
from talos.machined.runner import make_directory
from talos.machined.sequence import Phase, SequenceReplacedError, Task, TaskFailedError
from talos.machined.services import MACHINED_DIRECTORIES, SERVICES, STATE_SOCKET
from talos.machined.sysctls import apply_params, default_params
from talos.resource import kinds
from talos.resource.builtin import register_builtin
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.service import make_state_service
from talos.system import kernel
from talos.system.power import PowerAction

EARLY_SERVICES = ("networkd", "routerd", "apid", "timed", "udevd", "containerd")
"""What a machine has before it has a config; those that make it reachable first."""
LATE_MODULE = "talos.machined.late"
MACHINE_TYPE_ID = "machine-type"
OWN_GROUP = "init"
"""PID 1's own control group, and that of what it starts until it is put elsewhere."""
NOFILE = 1048576
"""Open files that services may have, where the kernel lets us say so."""
START_LIMIT = 70 * 60.0
"""Seconds until all services have to be up."""
REPORT_EVERY = 15.0
"""Seconds between two lines that say what is waited for."""
FAILURE_DELAY = 10.0
"""Seconds in which somebody may see why the machine reboots."""


async def boot(beginning: Beginning, daemon: Daemon) -> None:
    """From the first directory to all services up; then wait for the end."""
    async with trio.open_nursery() as nursery:
        machine = make_machine(beginning, daemon, nursery)
        watch_children(machine)
        collect_controllers_log(machine)
        filesystems.make_system_directories()
        make_groups(machine)
        raise_limits(machine)
        await register_builtin(machine.state)
        await describe_machine(machine)
        await start_supervision(machine)
        await nursery.start(serve_state, machine)
        nursery.start_soon(end_on_signal, machine)
        try:
            await run_sequences(machine)
        except SequenceReplacedError:
            machine.log.info("the boot was given up for the machine's end")
        except TaskFailedError as error:
            await end_after_failure(machine, error)
        await trio.sleep_forever()


def watch_children(machine: Machine) -> None:
    """From here on the reaper knows of every process that ends."""
    machine.daemon.bridge.loop.add_signal_handler(signal.SIGCHLD, machine.reaper.drain)
    machine.reaper.drain()


def collect_controllers_log(machine: Machine) -> None:
    """What libraries and controllers say becomes a log of its own."""
    console = make_console(is_container=machine.is_container)
    collect_library_logs(Log(write=make_sink(machine.logs, CONTROLLERS, console)))


def make_groups(machine: Machine) -> None:
    """Control groups of all services; we leave the root, where version 2 lets no process stay."""
    groups = machine.ports.groups
    try:
        groups.leave_root(OWN_GROUP)
        for spec in SERVICES:
            if spec.group:
                groups.create(spec.group, spec.limits)
    except OSError as error:
        machine.log.warning("control groups are not as they should be", reason=str(error))


def raise_limits(machine: Machine) -> None:
    """As many open files as the kernel grants."""
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    for wanted in (NOFILE, hard):
        try:
            limits.setrlimit(limits.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
        except (OSError, ValueError):
            continue
        return
    machine.log.info("the limit of open files stays", soft=soft, hard=hard)


async def describe_machine(machine: Machine) -> None:
    """Kernel parameters, and everything about the machine that doesn't change."""
    params = apply_params(machine.ports.sysctls, default_params(is_container=machine.is_container))
    await resources.describe_params(machine.state, params)
    machine.etc.write("machine-id", machine.identity.machine_id + "\n", mode=0o444)
    await resources.describe_machine(
        machine.state,
        files=machine.ports.files,
        node_id=machine.identity.node_id,
        cmdline=machine.platform.cmdline,
        platform=machine.platform.load_network(),
    )


async def start_supervision(machine: Machine) -> None:
    """Services can be started from here on."""
    machine.nursery.start_soon(machine.supervisor.run)
    machine.nursery.start_soon(machine.zygote.keep, machine.log.error)


async def serve_state(
    machine: Machine, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The State for the daemons: they can start from here on."""
    for directory in MACHINED_DIRECTORIES:
        make_directory(directory)
    async with serve(machine.daemon, [make_state_service(machine.state)], STATE_SOCKET):
        task_status.started()
        await trio.sleep_forever()


async def run_sequences(machine: Machine) -> None:
    """initialize, (install,) boot."""
    await machine.sequencer.run("initialize", make_initialize(machine))
    await machine.sequencer.run("boot", make_boot(machine))
    machine.stage.set(enums.MACHINE_STAGE_RUNNING)


def make_initialize(machine: Machine) -> tuple[Phase, ...]:
    """From nothing to a config."""

    async def start_early() -> None:
        machine.supervisor.begin(EARLY_SERVICES)

    async def start_machined() -> None:
        late = await trio.to_thread.run_sync(importlib.import_module, LATE_MODULE)
        await machine.nursery.start(late.run_node, machine)
        machine.supervisor.begin(["machined"])

    async def load_config() -> None:
        await importlib.import_module(LATE_MODULE).load_config(machine)

    return (
        Phase("earlyServices", (Task("startEarlyServices", start_early),)),
        Phase("machined", (Task("startMachined", start_machined),)),
        Phase("config", (Task("loadConfig", load_config),)),
    )


def make_boot(machine: Machine) -> tuple[Phase, ...]:
    """From a config to all services."""

    async def share_filesystems() -> None:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)

    async def use_ephemeral() -> None:
        filesystems.make_var_directories()
        machine.logs.open_files(DIRECTORY)
        for finding in filesystems.check_hardening(machine.ports.mounts):
            machine.log.warning("a writable mount is not hardened", finding=finding)

    async def start_everything() -> None:
        names = [spec.id for spec in SERVICES]
        if not await is_control_plane(machine):
            names = [spec.id for spec in SERVICES if not spec.control_plane_only]
        machine.supervisor.begin(names)
        await wait_for_services(machine, names)

    return (
        Phase("sharedFilesystems", (Task("setupSharedFilesystems", share_filesystems),)),
        Phase("ephemeral", (Task("mountEphemeralPartition", use_ephemeral),), may_fail=True),
        Phase("startEverything", (Task("startAllServices", start_everything),)),
    )


async def is_control_plane(machine: Machine) -> bool:
    """Whether the config makes this machine part of the control plane; waits until that is known."""
    found = await wait_for(machine.state, kinds.MACHINE_TYPE, MACHINE_TYPE_ID, _is_known)
    return found.spec.machine_type in (config_pb2.INIT, config_pb2.CONTROL_PLANE)


def _is_known(resource: Resource[config_pb2.MachineTypeSpec]) -> bool:
    return resource.spec.machine_type != config_pb2.UNKNOWN


async def wait_for_services(machine: Machine, names: Iterable[str]) -> None:
    """Until all of them are up; now and then, say which are not."""
    names = tuple(names)
    with trio.fail_after(START_LIMIT):
        while True:
            with trio.move_on_after(REPORT_EVERY) as scope:
                await machine.supervisor.wait_until_settled(names)
            if not scope.cancelled_caught:
                return
            for name, what in machine.supervisor.unsettled(names).items():
                machine.log.info(f"service[{name}]: not up yet: {what}")


async def end_on_signal(machine: Machine) -> None:
    """SIGTERM, from the launcher or ctrl-alt-del."""
    await machine.daemon.stopping.wait()
    machine.power.shutdown()


async def end_after_failure(machine: Machine, error: TaskFailedError) -> None:
    """A machine that can't boot tries again; until then its API says why."""
    machine.log.error(f"the boot failed, rebooting in {FAILURE_DELAY:.0f} s", error=error)
    machine.stage.set(enums.MACHINE_STAGE_REBOOTING)
    await trio.sleep(FAILURE_DELAY)
    await finish(PowerAction.REBOOT, machine.ports.power, machine.ports.mounts, machine.log)
