"""Construct the objects of PID 1."""

import time
from dataclasses import dataclass
from functools import partial
from socket import socket

import trio

from talos.machined.boot.machine import STATE_DIR, Machine, SystemPorts
from talos.machined.boot.make_power import make_power
from talos.machined.boot.make_upgrades import make_upgrades
from talos.machined.boot.sequence import Sequencer
from talos.machined.logs.console import make_controllers_log
from talos.machined.logs.crash import CrashLog
from talos.machined.logs.kernel import DeviceKernelLog
from talos.machined.logs.store import LogStore
from talos.machined.node.debug_containers import DebugContainers
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.events import EventLog
from talos.machined.node.identity import load_identity, make_identity
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.ports.node import Node, Ports
from talos.machined.node.stage import MachineStage
from talos.machined.node.sysctls import KernelParams, default_params
from talos.machined.node.workloads import Workloads
from talos.machined.platform.platform import detect_platform
from talos.machined.services.extensions import load_services
from talos.machined.services.processes import ProcessRunner
from talos.machined.services.reaper import Reaper
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.spec import ServiceContext
from talos.machined.services.supervisor import Supervisor
from talos.machined.services.table import SERVICES
from talos.machined.services.upgrade_lock import EtcdLock
from talos.machined.services.zygote_client import Zygote
from talos.process.run import Daemon
from talos.resource.memory.state import MemoryState
from talos.rpc.channel import open_channel, open_remote
from talos.system.cgroups import find_groups
from talos.system.files import KernelFiles
from talos.system.mounts import KernelMounts
from talos.system.power import KernelPower
from talos.system.proc.sysctl import KernelSysctls
from talos.upgrade.slots.open_keys import OpenKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class BootContext:
    """What exists before the event loop: the logs, and the zygote, forked before there are threads."""

    logs: LogStore
    zygote: socket
    zygote_pid: int


def make_machine(context: BootContext, daemon: Daemon, nursery: trio.Nursery) -> Machine:
    """Construct everything; the only process that is registered with the reaper yet is the zygote."""
    ports = make_ports()
    platform = detect_platform(ports.files)
    connect = partial(open_channel, daemon)
    state = MemoryState()
    events = EventLog()
    stage = MachineStage()
    meta = MetaStore()
    etcd = EtcdControl()
    workloads = Workloads()
    debug_containers = DebugContainers()
    reaper = Reaper()
    zygote = Zygote(reaper, context.zygote, context.zygote_pid)
    processes = ProcessRunner(reaper, context.logs)
    runner = RunnerContext(
        reaper=reaper,
        zygote=zygote,
        logs=context.logs,
        groups=ports.groups,
        service=ServiceContext(
            platform=platform,
            state=state,
            connect=connect,
            etcd=etcd,
            processes=processes,
            workloads=workloads,
        ),
        connect=connect,
        log=daemon.log,
    )
    extensions = load_services(daemon.log, {service.id for service in SERVICES})
    supervisor = Supervisor((*SERVICES, *extensions), runner, events, state)
    sequencer = Sequencer(events, daemon.log)
    power = make_power(
        runner,
        ports,
        platform,
        supervisor,
        sequencer,
        nursery=nursery,
        stage=stage,
        events=events,
        meta=meta,
        debug_containers=debug_containers,
    )
    crash = CrashLog(logs=context.logs, log=daemon.log, has_kernel=platform.has_kernel)
    open_keys: OpenKeys = {}
    upgrades = make_upgrades(
        runner, ports, platform, supervisor, events=events, meta=meta, crash=crash, open_keys=open_keys
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
        open_keys=open_keys,
        upgrades=upgrades,
        workloads=workloads,
        debug_containers=debug_containers,
        extensions=tuple(service.id for service in extensions),
        nursery=nursery,
    )


def make_ports() -> SystemPorts:
    """The interfaces to this kernel."""
    return SystemPorts(
        files=KernelFiles(),
        mounts=KernelMounts(),
        groups=find_groups(),
        sysctls=KernelSysctls(),
        power=KernelPower(),
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
        debug_containers=machine.debug_containers,
        connect=connect,
        connect_remote=partial(open_remote, machine.daemon.bridge),
    )
