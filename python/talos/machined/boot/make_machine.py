"""Construct the objects of PID 1."""

import time
from dataclasses import dataclass
from functools import partial
from socket import socket

import trio
from google.protobuf.empty_pb2 import Empty

from talos.disks.lvm.deactivate import deactivate_groups
from talos.disks.volumes.requests import end_lifecycle
from talos.machined.boot.machine import STATE_DIR, Machine, SystemPorts
from talos.machined.boot.power import PowerSequences
from talos.machined.boot.sequence import Sequencer
from talos.machined.logs.console import make_controllers_log
from talos.machined.logs.crash import CrashLog
from talos.machined.logs.kernel import DeviceKernelLog
from talos.machined.logs.store import DIRECTORY, LogStore
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.events import EventLog
from talos.machined.node.identity import load_identity, make_identity
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore, forget_state_keys
from talos.machined.node.ports.node import Node, Ports
from talos.machined.node.ports.services import ServiceState
from talos.machined.node.stage import MachineStage
from talos.machined.node.sysctls import KernelParams, default_params
from talos.machined.node.workloads import Workloads
from talos.machined.platform.platform import detect_platform
from talos.machined.services.etcd import has_member, leave_etcd, resign
from talos.machined.services.extensions import load_services
from talos.machined.services.kubelet import KUBELET, drain
from talos.machined.services.kubelet_shutdown import shut_kubelet_down
from talos.machined.services.pods import stop_pods
from talos.machined.services.processes import ProcessRunner
from talos.machined.services.reaper import Reaper
from talos.machined.services.runner import RunnerContext
from talos.machined.services.spec import ServiceContext
from talos.machined.services.supervisor import Supervisor
from talos.machined.services.table import SERVICES
from talos.machined.services.upgrade_lock import EtcdLock
from talos.machined.services.zygote_client import Zygote
from talos.process.daemons import CLUSTERD
from talos.process.run import Daemon
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.rpc.channel import open_channel, open_remote
from talos.system.block.lvm import Lvm
from talos.system.block.wipe import make_blank
from talos.system.cgroups import find_groups
from talos.system.files import KernelFiles
from talos.system.mounts import KernelMounts
from talos.system.power import KernelPower, PowerAction
from talos.system.proc.sysctl import KernelSysctls
from talos.upgrade.session import NETWORK, Upgrades, is_network_ready
from talos.upgrade.slots.choose import choose_slots
from talos.upgrade.slots.container import FolderSlots
from talos.upgrade.slots.open_keys import OpenKeys
from talos.upgrade.slots.systemd_boot.starts import StartCount
from talos.upgrade.state import find_slot

SHUTDOWN_ARGUMENT = "talos.shutdown"
"""``halt`` stops a machine at its end without switching it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootContext:
    """What exists before the event loop: the logs, and the zygote, forked before there are threads."""

    logs: LogStore
    zygote: socket
    zygote_pid: int


def make_machine(context: BootContext, daemon: Daemon, nursery: trio.Nursery) -> Machine:
    """Construct everything; the only process that is registered with the reaper yet is the zygote."""
    ports = SystemPorts(
        files=KernelFiles(),
        mounts=KernelMounts(),
        groups=find_groups(),
        sysctls=KernelSysctls(),
        power=KernelPower(),
    )
    platform = detect_platform(ports.files)
    state = MemoryState()
    events = EventLog()
    etcd = EtcdControl()
    reaper = Reaper()
    zygote = Zygote(reaper, context.zygote, context.zygote_pid)
    workloads = Workloads()
    processes = ProcessRunner(reaper, context.logs)
    runner_context = RunnerContext(
        reaper=reaper,
        zygote=zygote,
        logs=context.logs,
        groups=ports.groups,
        service=ServiceContext(
            platform=platform,
            state=state,
            connect=partial(open_channel, daemon),
            etcd=etcd,
            processes=processes,
            workloads=workloads,
        ),
        connect=partial(open_channel, daemon),
        log=daemon.log,
    )
    stage = MachineStage()
    extensions = load_services(daemon.log, {service.id for service in SERVICES})
    supervisor = Supervisor((*SERVICES, *extensions), runner_context, events, state)
    sequencer = Sequencer(events, daemon.log)

    async def leave() -> None:
        if await has_member(runner_context.connect, state):
            await leave_etcd(runner_context.connect, supervisor)

    async def resume() -> None:
        """Undo what a sequence has ended before it came to nothing: pods run here again, and elections."""
        await put(state, *ids.KUBELET_LIFECYCLE, Empty())
        supervisor.start_soon([KUBELET])
        await supervisor.terminate(CLUSTERD.name)  # it has resigned until its end

    processes = ProcessRunner(reaper, context.logs)

    async def finalize() -> None:
        """Unmount all volumes, then deactivate the groups that some of them are in."""
        await end_lifecycle(state, daemon.log)
        await deactivate_groups(state, Lvm(processes.capture, make_blank), daemon.log)

    meta = MetaStore()
    power = PowerSequences(
        nursery=nursery,
        sequencer=sequencer,
        supervisor=supervisor,
        stage=stage,
        events=events,
        logs=context.logs,
        mounts=ports.mounts,
        switch=ports.power,
        files=ports.files,
        log=daemon.log,
        finalize=finalize,
        leave=leave,
        resign=partial(resign, runner_context.connect),
        drain=partial(drain, runner_context.connect, supervisor, daemon.log),
        shut_kubelet_down=partial(shut_kubelet_down, runner_context.connect, state, supervisor, daemon.log),
        stop_pods=partial(stop_pods, runner_context.connect, supervisor, daemon.log),
        forget_state_keys=partial(forget_state_keys, meta),
        resume=resume,
        off=PowerAction.HALT
        if platform.arguments.first(SHUTDOWN_ARGUMENT) == "halt"
        else PowerAction.POWER_OFF,
    )

    async def list_checks() -> list[str]:
        """What is healthy now."""
        well = [
            status.id
            for status in supervisor.list()
            if status.state is ServiceState.RUNNING and status.health.healthy
        ]
        return [*well, *([NETWORK] if await is_network_ready(state) else [])]

    crash = CrashLog(logs=context.logs, log=daemon.log, has_kernel=platform.has_kernel)
    keys: OpenKeys = {}
    slots, running = (
        (FolderSlots(platform.slots), find_slot(platform.cmdline))
        if platform.slots
        else choose_slots(state, processes.capture, ports.mounts, daemon.log, platform.cmdline, keys)
    )
    upgrades = Upgrades(
        state=state,
        meta=meta,
        slots=slots,
        running=running,
        publish=events.publish,
        log=daemon.log,
        cmdline=platform.cmdline,
        is_repeated=platform.has_kernel and StartCount().is_repeated(),
        list_checks=list_checks,
        keep_logs=partial(crash.keep_this, DIRECTORY),
    )
    return Machine(
        daemon=daemon,
        log=daemon.log,
        controllers_log=make_controllers_log(context.logs, has_kernel=platform.has_kernel),
        ports=ports,
        platform=platform,
        # A machine mounts STATE later, which may hold another identity.
        identity=make_identity() if platform.has_disks else load_identity(STATE_DIR),
        state=state,
        stage=stage,
        events=events,
        logs=context.logs,
        crash=crash,
        kernel_log=DeviceKernelLog(),
        reaper=reaper,
        zygote=zygote,
        supervisor=supervisor,
        sequencer=sequencer,
        power=power,
        etcd=etcd,
        etc=EtcFiles(ports.mounts),
        params=KernelParams(ports.sysctls, default_params(has_kernel=platform.has_kernel)),
        processes=processes,
        meta=meta,
        keys=KeyRequests(),
        open_keys=keys,
        upgrades=upgrades,
        workloads=workloads,
        extensions=tuple(service.id for service in extensions),
        nursery=nursery,
    )


def make_node(machine: Machine) -> Node:
    """The machine as the API uses it."""
    connect = partial(open_channel, machine.daemon)
    return Node(
        state=machine.state,
        services=machine.supervisor,
        events=machine.events,
        logs=machine.logs,
        kernel_log=machine.kernel_log,
        platform=machine.platform,
        ports=Ports(
            files=machine.ports.files, groups=machine.ports.groups, state_dir=STATE_DIR, now=time.time
        ),
        power=machine.power,
        processes=machine.processes,
        meta=machine.meta,
        etcd=machine.etcd,
        upgrades=machine.upgrades,
        upgrade_lock=EtcdLock(connect, machine.state),
        workloads=machine.workloads,
        connect=connect,
        connect_remote=partial(open_remote, machine.daemon.bridge),
    )
