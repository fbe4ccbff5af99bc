"""The sequences that end this boot: reboot, shutdown and reset, each with a deadline."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import RpcError
from talos.disks.reset import ResetPlan
from talos.machined.boot.filesystems import OPT
from talos.machined.boot.phases.reset import make_reset
from talos.machined.boot.sequence import Phase, Sequencer, SequenceReplacedError, Task
from talos.machined.boot.sequence_lock import LOCK_TIMEOUT, SequenceLock
from talos.machined.logs.store import LogStore
from talos.machined.node.events import EventLog
from talos.machined.node.ports.power import NodeLock, RebootMode
from talos.machined.node.stage import MachineStage
from talos.machined.services.supervisor import Supervisor
from talos.system.files import Files
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.power import PowerAction, PowerSwitch
from talos.system.proc.processes import find_holders

DEADLINE = 60.0
"""Seconds for a whole sequence; then the machine ends with tasks still running."""
RESET_DEADLINE = 600.0
"""Seconds for a reset, which has disks to erase."""
UPGRADE_DEADLINE = 900.0
"""Seconds for an upgrade, which writes and reads a slow disk."""
FLUSH_TIMEOUT = 30.0
"""Seconds to wait for the disks."""
RESIGN_TIMEOUT = 5.0
"""Seconds for clusterd to give up what this node was elected for, which others take up later without it."""
DRAIN_TIMEOUT = 400.0
"""Seconds to move pods elsewhere, beside the deadlines above; kubed itself takes up to six minutes."""
KUBELET_TIMEOUT = 1300.0
"""Seconds for the kubelet to end its pods, beside the deadlines above. It takes what its config has, 30 by
default and 1,200 at most, after up to 30 for KubeletLifecycle to be released."""
PODS_TIMEOUT = 180.0
"""Seconds for pods that are left to end, which are added to the deadlines above."""
RESUME_TIMEOUT = 30.0
"""Seconds to begin anew what a sequence ended that does not end the machine."""
REPLY_DELAY = 0.3
"""Seconds in which the last events reach the API's clients."""
SYSTEM = frozenset({"machined", "apid", "routerd"})
"""These services serve the API until the end."""
STATE_TARGET = "/system/state"
PERSISTENT_TYPES = frozenset({"xfs", "ext4", "vfat", "btrfs", "overlay"})


class PowerSequences:
    """Starts reboot, shutdown and reset as background sequences."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        sequencer: Sequencer,
        supervisor: Supervisor,
        stage: MachineStage,
        events: EventLog,
        logs: LogStore,
        mounts: Mounts,
        switch: PowerSwitch,
        files: Files,
        log: Log,
        off: PowerAction = PowerAction.POWER_OFF,
        finalize: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        leave: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        resign: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        drain: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        shut_kubelet_down: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        stop_pods: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        resume: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        forget_state_keys: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._nursery = nursery
        self._sequencer = sequencer
        self._supervisor = supervisor
        self._stage = stage
        self._events = events
        self._logs = logs
        self._mounts = mounts
        self._switch = switch
        self._files = files
        self._log = log
        self._off = off
        self._finalize = finalize
        self._leave = leave
        self._resign_elections = resign
        self._drain_node = drain
        self._shut_kubelet_down = shut_kubelet_down
        self._stop_all_pods = stop_pods
        self._resume = resume
        self._forget_state_keys = forget_state_keys

    @property
    def is_locked(self) -> bool:
        """Whether a sequence runs that does not give way to another one."""
        return self._sequencer.is_locked

    def reboot(
        self,
        *,
        mode: RebootMode = RebootMode.DEFAULT,
        is_upgrade: bool = False,
        lock: NodeLock | None = None,
    ) -> str:
        """Start to reboot; the actor id. SequenceLockedError.

        Into a release that is to be tried the pods move elsewhere before, unless it is to be by force.
        """
        drains = is_upgrade and mode is not RebootMode.FORCE
        actor = self._sequencer.reserve("reboot", takeover=mode is RebootMode.FORCE)
        stay = partial(self._stage.set, self._stage.value)
        self._stage.set(enums.MACHINE_STAGE_UPGRADING if drains else enums.MACHINE_STAGE_REBOOTING)
        held = SequenceLock(lock, self._log) if lock else None
        end = partial(self._end, drains=drains, cleans=mode is not RebootMode.FORCE, held=held, stay=stay)
        self._nursery.start_soon(end, "reboot", PowerAction.REBOOT, actor, self.make_stop_phases(held))
        return actor

    def shutdown(self, *, force: bool = False) -> str:
        """Start to shut down, taking over from any other sequence; the actor id.

        Pods move elsewhere before, unless it is to be by force.
        """
        actor = self._sequencer.reserve("shutdown", takeover=True)
        self._stage.set(enums.MACHINE_STAGE_SHUTTING_DOWN)
        phases = self.make_stop_phases()
        self._nursery.start_soon(self._end, "shutdown", self._off, actor, phases, DEADLINE, not force)
        return actor

    def reset(self, plan: ResetPlan) -> str:
        """Start to erase what the plan names, then reboot or power off; the actor id. SequenceLockedError."""
        actor = self._sequencer.reserve("reset")
        self._stage.set(enums.MACHINE_STAGE_RESETTING)
        action = PowerAction.REBOOT if plan.reboot else self._off
        stop = tuple(replace(phase, may_fail=True) for phase in self.make_stop_phases())
        # Nothing is erased when the cluster refuses to let the node go.
        leave = Phase("leave", (Task("leaveEtcd", self._leave),))
        erase = make_reset(plan, self._mounts, self._log, self._forget_state_keys)
        phases = (*((leave,) if plan.graceful else ()), *stop, *erase)
        self._nursery.start_soon(self._end, "reset", action, actor, phases, RESET_DEADLINE, plan.graceful)
        return actor

    def upgrade(
        self,
        install: Callable[[], Awaitable[None]],
        *,
        staged: bool,
        lock: NodeLock | None = None,
        stay: Callable[[], None] = lambda: None,
    ) -> str:
        """Start to drain, stop services, install and reboot, with ``staged`` to install first; the actor id.

        What fails leaves the old system the one that is booted. SequenceLockedError.
        """
        name = "stageUpgrade" if staged else "upgrade"
        actor = self._sequencer.reserve(name)
        before = self._stage.value

        def go_on() -> None:
            self._stage.set(before)
            stay()

        self._stage.set(enums.MACHINE_STAGE_UPGRADING)
        work = Phase("upgrade", (Task("upgrade", install),))
        held = SequenceLock(lock, self._log) if lock else None
        stop = self.make_stop_phases(held)
        phases = (work, *stop) if staged else (*stop, work)
        end = partial(self._end, deadline=UPGRADE_DEADLINE, drains=not staged, held=held, stay=go_on)
        self._nursery.start_soon(end, name, PowerAction.REBOOT, actor, phases)
        return actor

    async def _end(
        self,
        name: str,
        action: PowerAction,
        actor: str,
        phases: Sequence[Phase],
        deadline: float = DEADLINE,
        drains: bool = False,
        cleans: bool = True,
        held: SequenceLock | None = None,
        stay: Callable[[], None] = lambda: None,
    ) -> None:
        deadline += LOCK_TIMEOUT if held else 0.0
        scope = trio.CancelScope(deadline=trio.current_time() + deadline)

        async def drain() -> None:
            await self._drain()
            scope.deadline = trio.current_time() + deadline + KUBELET_TIMEOUT + PODS_TIMEOUT

        async def clean_up() -> None:
            await self._stop_pods()
            scope.deadline = trio.current_time() + deadline

        if cleans:
            scope.deadline += KUBELET_TIMEOUT + PODS_TIMEOUT
            phases = (Phase("cleanup", (Task("stopAllPods", clean_up),), may_fail=True), *phases)
        # While etcd, the network and this node's API server are there: without it, other nodes wait for the
        # end of a lease, and a virtual address leads to a node without an API server.
        phases = (Phase("resign", (Task("resignElections", self._resign),), may_fail=True), *phases)
        if drains:
            scope.deadline += DRAIN_TIMEOUT
            phases = (Phase("drain", (Task("cordonAndDrainNode", drain),), may_fail=True), *phases)
        with trio.CancelScope(shield=True):
            with scope:
                async with held.renewed() if held else nullcontext():
                    try:
                        await self._sequencer.run(name, phases, actor_id=actor)
                    except SequenceReplacedError:
                        return  # by one that ends the machine itself
                    except Exception:  # noqa: BLE001 - the machine ends all the same
                        if not (held and held.refusal):
                            self._log.exception(f"sequence {name}: failed, the machine ends all the same")
            if held and held.refusal:
                await self._stay_up(name, held, stay)
                return
            if scope.cancelled_caught:
                self._log.error(f"sequence {name}: not done within {deadline:.0f} s", **self._find_stuck())
            self._announce_end(action, actor)
            await trio.sleep(REPLY_DELAY)
            await finish(action, self._switch, self._mounts, self._log)

    async def _stay_up(self, name: str, held: SequenceLock, stay: Callable[[], None]) -> None:
        """End a sequence before it has stopped a service that others need: what it has ended begins anew."""
        self._log.error(f"sequence {name}: the node stays up", reason=held.refusal)
        await held.release()
        stay()
        await self._attempt(RESUME_TIMEOUT, self._resume, "what the sequence has ended does not begin anew")

    def _announce_end(self, action: PowerAction, actor: str) -> None:
        """Send clients that what is left, the API, ends with the machine.

        Existing ones take the begin of this task for the end of a shutdown and of a reset, and wait for it.
        """
        self._events.publish(
            pb.PhaseEvent(phase="stopEverything", action=pb.PhaseEvent.START), actor_id=actor
        )
        self._events.publish(pb.TaskEvent(task="stopAllServices", action=pb.TaskEvent.START), actor_id=actor)
        self._events.publish(pb.RestartEvent(cmd=action.value), actor_id=actor)

    def make_stop_phases(self, held: SequenceLock | None = None) -> tuple[Phase, ...]:
        """The phases that stop all services but the API and unmount all filesystems."""
        return (
            *((Phase("lock", (Task("takeUpgradeLock", held.take),)),) if held else ()),
            Phase("denyNewServices", (Task("denyNewServices", self._deny),)),
            Phase("stopServices", (Task("stopServicesForUpgrade", self._stop_services),), may_fail=True),
            Phase("umount", (Task("unmountPodMounts", self._unmount_pods),), may_fail=True),
            Phase("unmountSystem", (Task("unmountEphemeralPartition", self._unmount_var),), may_fail=True),
            Phase("volumeFinalize", (Task("teardownLifecycle", self._unmount_state),), may_fail=True),
        )

    async def _stop_pods(self) -> None:
        await self._attempt(KUBELET_TIMEOUT, self._shut_kubelet_down, "the kubelet does not end its pods")
        await self._attempt(PODS_TIMEOUT, self._stop_all_pods, "the node's pods end with it")

    async def _drain(self) -> None:
        await self._attempt(DRAIN_TIMEOUT, self._drain_node, "the node's pods are not moved elsewhere")

    async def _resign(self) -> None:
        await self._attempt(RESIGN_TIMEOUT, self._resign_elections, "clusterd did not resign")

    async def _attempt(self, limit: float, work: Callable[[], Awaitable[None]], failure: str) -> None:
        """Do what others wait for but the machine's end does not depend on; ``limit`` in seconds."""
        with trio.move_on_after(limit) as scope:
            try:
                await work()
            except (RpcError, OSError) as error:
                self._log.warning(failure, reason=str(error))
        if scope.cancelled_caught:
            self._log.warning(failure, reason=f"it takes more than {limit:.0f} s")

    async def _deny(self) -> None:
        self._supervisor.deny_starts("the machine is ending")

    async def _stop_services(self) -> None:
        await self._supervisor.stop_all(keep=SYSTEM)

    async def _unmount_pods(self) -> None:
        await self._unmount(lambda target: target.startswith(("/var/lib/kubelet/", "/run/containerd/")))

    async def _unmount_var(self) -> None:
        if not await trio.to_thread.run_sync(self._logs.close_files):
            self._log.warning("the disk takes no more logs")
        await self._unmount(lambda target: target.startswith("/var/") or target == OPT)
        await self._unmount(lambda target: target == "/var")

    async def _unmount_state(self) -> None:
        await self._finalize()
        await self._unmount(lambda target: target == STATE_TARGET)

    async def _unmount(self, wanted: Callable[[str], bool]) -> None:
        """Unmount, the newest first; a busy mount is logged and made read-only."""
        for mount in reversed(self._mounts.list()):
            if wanted(mount.target):
                try:
                    self._mounts.unmount(mount.target)
                except OSError as error:
                    held = await trio.to_thread.run_sync(find_holders, self._files, mount.target)
                    self._log.warning("still in use", mount=mount.target, reason=error.strerror, held_by=held)
                    make_read_only(self._mounts, mount.target)
            await trio.lowlevel.checkpoint()

    def _find_stuck(self) -> dict[str, object]:
        mounts = [mount.target for mount in self._mounts.list() if mount.type in PERSISTENT_TYPES]
        services = [status.id for status in self._supervisor.list() if status.pid and status.id not in SYSTEM]
        return {"services": services, "mounts": mounts}


def make_read_only(mounts: Mounts, target: str) -> None:
    """Remount read-only, if possible: a bind mount or a file open for writing prevents it."""
    try:
        mounts.remount_read_only(target)
    except OSError:
        return


async def finish(action: PowerAction, switch: PowerSwitch, mounts: Mounts, log: Log) -> None:
    """Sync the disks, then reboot, halt or power off."""
    with trio.move_on_after(FLUSH_TIMEOUT) as scope:
        # A disk that was removed makes sync wait for ever: leave the thread behind then.
        await trio.to_thread.run_sync(switch.flush, abandon_on_cancel=True)
    if scope.cancelled_caught:
        stuck = [mount.target for mount in mounts.list() if mount.type in PERSISTENT_TYPES]
        log.error(f"the disks did not take everything within {FLUSH_TIMEOUT:.0f} s", mounts=stuck)
    log.info(f"{action.name.lower().replace('_', ' ')} now")
    await trio.to_thread.run_sync(partial(switch.press, action))
