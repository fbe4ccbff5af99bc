"""Construct the power sequences: what they do with services, pods, etcd and disks."""

from functools import partial

import trio
from google.protobuf.empty_pb2 import Empty

from talos.disks.lvm.deactivate import deactivate_groups
from talos.disks.volumes.requests import end_lifecycle
from talos.machined.boot.machine import SystemPorts
from talos.machined.boot.power import PowerSequences
from talos.machined.boot.power_hooks import PowerHooks
from talos.machined.boot.sequence import Sequencer
from talos.machined.boot.stop_phases import StopPhases
from talos.machined.node.debug_containers import DebugContainers
from talos.machined.node.events import EventLog
from talos.machined.node.meta_store import MetaStore, forget_state_keys
from talos.machined.node.stage import MachineStage
from talos.machined.platform.platform import PlatformPort
from talos.machined.services.etcd import has_member, leave_etcd, resign
from talos.machined.services.kubelet import KUBELET, drain
from talos.machined.services.kubelet_shutdown import shut_kubelet_down
from talos.machined.services.pods import stop_pods
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.supervisor import Supervisor
from talos.process.daemons import CLUSTERD
from talos.resource import ids
from talos.resource.changes import put
from talos.system.block.lvm import Lvm
from talos.system.block.wipe import make_blank
from talos.system.power import PowerAction

SHUTDOWN_ARGUMENT = "talos.shutdown"
"""``halt`` stops a machine at its end without switching it off."""


def make_power(
    runner: RunnerContext,
    ports: SystemPorts,
    platform: PlatformPort,
    supervisor: Supervisor,
    sequencer: Sequencer,
    *,
    nursery: trio.Nursery,
    stage: MachineStage,
    events: EventLog,
    meta: MetaStore,
    debug_containers: DebugContainers,
) -> PowerSequences:
    """The sequences of this machine; ``runner`` has what services share."""
    return PowerSequences(
        nursery=nursery,
        sequencer=sequencer,
        stage=stage,
        events=events,
        stop_phases=StopPhases(
            supervisor=supervisor,
            logs=runner.logs,
            mounts=ports.mounts,
            files=ports.files,
            log=runner.log,
            close_volumes=partial(_close_volumes, runner),
            end_debugging=debug_containers.end_all,
        ),
        hooks=_make_hooks(runner, supervisor, meta),
        mounts=ports.mounts,
        switch=ports.power,
        log=runner.log,
        off=choose_off(platform),
    )


def _make_hooks(runner: RunnerContext, supervisor: Supervisor, meta: MetaStore) -> PowerHooks:
    connect, state, log = runner.connect, runner.service.state, runner.log

    async def leave_if_member() -> None:
        if await has_member(connect, state):
            await leave_etcd(connect, supervisor)

    async def resume() -> None:
        """Undo what a sequence has ended before it came to nothing: pods run here again, and elections."""
        await put(state, *ids.KUBELET_LIFECYCLE, Empty())
        supervisor.start_soon([KUBELET])
        await supervisor.terminate(CLUSTERD.name)  # it has resigned until its end

    return PowerHooks(
        drain=partial(drain, connect, supervisor, log),
        resign=partial(resign, connect),
        shut_kubelet_down=partial(shut_kubelet_down, connect, state, supervisor, log),
        stop_pods=partial(stop_pods, connect, supervisor, log),
        leave_etcd=leave_if_member,
        forget_state_keys=partial(forget_state_keys, meta),
        resume=resume,
    )


async def _close_volumes(runner: RunnerContext) -> None:
    """Unmount all volumes, then deactivate the groups that some of them are in."""
    state, log = runner.service.state, runner.log
    await end_lifecycle(state, log)
    await deactivate_groups(state, Lvm(runner.service.processes.capture, make_blank), log)


def choose_off(platform: PlatformPort) -> PowerAction:
    """How a shutdown ends: the machine is switched off, unless the kernel's arguments have it halt."""
    is_halted = platform.arguments.first(SHUTDOWN_ARGUMENT) == "halt"
    return PowerAction.HALT if is_halted else PowerAction.POWER_OFF
