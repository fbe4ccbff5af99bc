"""The sequences that end this boot: reboot, shutdown, reset and upgrade, each with a deadline."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import RpcError
from talos.disks.reset import ResetPlan
from talos.machined.boot.phases.reset import make_reset
from talos.machined.boot.power_hooks import Hook, PowerHooks
from talos.machined.boot.sequence import Phase, Sequencer, SequenceReplacedError, Task
from talos.machined.boot.sequence_lock import LOCK_TIMEOUT, SequenceLock
from talos.machined.boot.stop_phases import StopPhases, find_persistent
from talos.machined.node.events import EventLog
from talos.machined.node.ports.power import NodeLock, RebootMode
from talos.machined.node.stage import MachineStage
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.power import PowerAction, PowerSwitch

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """One sequence. ``stay`` is called when this node stays up, as it can't take the lock anew."""

    name: str
    action: PowerAction
    actor: str
    phases: Sequence[Phase]
    deadline: float = DEADLINE
    """Seconds, beside those for pods and for the lock."""
    drains: bool = False
    stops_pods: bool = True
    lock: SequenceLock | None = None
    stay: Callable[[], None] = lambda: None

    @property
    def is_refused(self) -> bool:
        """Whether other nodes need this one now, so that it stays up."""
        return self.lock is not None and bool(self.lock.refusal)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerSequences:
    """Starts each sequence in the background. ``off`` is the end of a shutdown."""

    nursery: trio.Nursery
    sequencer: Sequencer
    stage: MachineStage
    events: EventLog
    stop_phases: StopPhases
    hooks: PowerHooks
    mounts: Mounts
    switch: PowerSwitch
    log: Log
    off: PowerAction = PowerAction.POWER_OFF

    @property
    def is_locked(self) -> bool:
        """Whether a sequence runs that does not give way to another one."""
        return self.sequencer.is_locked

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
        is_forced = mode is RebootMode.FORCE
        drains = is_upgrade and not is_forced
        actor = self.sequencer.reserve("reboot", takeover=is_forced)
        stay = partial(self.stage.set, self.stage.value)
        self.stage.set(enums.MACHINE_STAGE_UPGRADING if drains else enums.MACHINE_STAGE_REBOOTING)
        held = SequenceLock(lock, self.log) if lock else None
        self._start(
            _Ending(
                name="reboot",
                action=PowerAction.REBOOT,
                actor=actor,
                phases=self.stop_phases.make(held),
                drains=drains,
                stops_pods=not is_forced,
                lock=held,
                stay=stay,
            )
        )
        return actor

    def shutdown(self, *, force: bool = False) -> str:
        """Start to shut down, taking over from any other sequence; the actor id.

        Pods move elsewhere before, unless it is to be by force.
        """
        actor = self.sequencer.reserve("shutdown", takeover=True)
        self.stage.set(enums.MACHINE_STAGE_SHUTTING_DOWN)
        phases = self.stop_phases.make()
        self._start(_Ending(name="shutdown", action=self.off, actor=actor, phases=phases, drains=not force))
        return actor

    def reset(self, plan: ResetPlan) -> str:
        """Start to erase what the plan names, then reboot or power off; the actor id. SequenceLockedError."""
        actor = self.sequencer.reserve("reset")
        self.stage.set(enums.MACHINE_STAGE_RESETTING)
        stop = tuple(replace(phase, may_fail=True) for phase in self.stop_phases.make())
        # Nothing is erased when the cluster refuses to let the node go.
        leave = Phase("leave", (Task("leaveEtcd", self.hooks.leave_etcd),))
        erase = make_reset(plan, self.mounts, self.log, self.hooks.forget_state_keys)
        self._start(
            _Ending(
                name="reset",
                action=PowerAction.REBOOT if plan.reboot else self.off,
                actor=actor,
                phases=(*((leave,) if plan.graceful else ()), *stop, *erase),
                deadline=RESET_DEADLINE,
                drains=plan.graceful,
            )
        )
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
        actor = self.sequencer.reserve(name)
        before = self.stage.value

        def go_on() -> None:
            self.stage.set(before)
            stay()

        self.stage.set(enums.MACHINE_STAGE_UPGRADING)
        work = Phase("upgrade", (Task("upgrade", install),))
        held = SequenceLock(lock, self.log) if lock else None
        stop = self.stop_phases.make(held)
        self._start(
            _Ending(
                name=name,
                action=PowerAction.REBOOT,
                actor=actor,
                phases=(work, *stop) if staged else (*stop, work),
                deadline=UPGRADE_DEADLINE,
                drains=not staged,
                lock=held,
                stay=go_on,
            )
        )
        return actor

    def _start(self, ending: _Ending) -> None:
        self.nursery.start_soon(self._end, ending)

    async def _end(self, ending: _Ending) -> None:
        deadline = ending.deadline + (LOCK_TIMEOUT if ending.lock else 0.0)
        scope, is_replaced = trio.CancelScope(deadline=trio.current_time() + deadline), False
        phases = self._prepend_preparations(ending, scope, deadline)
        with trio.CancelScope(shield=True):
            with scope:
                is_replaced = not await self._run(ending, phases)
            if is_replaced:
                return
            if ending.lock and ending.is_refused:
                await self._stay_up(ending, ending.lock)
                return
            if scope.cancelled_caught:
                running = self.stop_phases.find_running()
                self.log.error(f"sequence {ending.name}: not done within {deadline:.0f} s", **running)
            self._announce_end(ending)
            await trio.sleep(REPLY_DELAY)
            await finish(ending.action, self.switch, self.mounts, self.log)

    def _prepend_preparations(
        self, ending: _Ending, scope: trio.CancelScope, deadline: float
    ) -> Sequence[Phase]:
        """All phases, those about pods and elections first. ``scope`` is prolonged by the time for pods."""
        phases, hooks = ending.phases, self.hooks

        async def drain() -> None:
            await self._attempt(DRAIN_TIMEOUT, hooks.drain, "the node's pods are not moved elsewhere")
            scope.deadline = trio.current_time() + deadline + KUBELET_TIMEOUT + PODS_TIMEOUT

        async def resign() -> None:
            await self._attempt(RESIGN_TIMEOUT, hooks.resign, "clusterd did not resign")

        async def stop_pods() -> None:
            failure = "the kubelet does not end its pods"
            await self._attempt(KUBELET_TIMEOUT, hooks.shut_kubelet_down, failure)
            await self._attempt(PODS_TIMEOUT, hooks.stop_pods, "the node's pods end with it")
            scope.deadline = trio.current_time() + deadline

        if ending.stops_pods:
            scope.deadline += KUBELET_TIMEOUT + PODS_TIMEOUT
            phases = (Phase("cleanup", (Task("stopAllPods", stop_pods),), may_fail=True), *phases)
        # While etcd, the network and this node's API server are there: without it, other nodes wait for the
        # end of a lease, and a virtual address leads to a node without an API server.
        phases = (Phase("resign", (Task("resignElections", resign),), may_fail=True), *phases)
        if ending.drains:
            scope.deadline += DRAIN_TIMEOUT
            phases = (Phase("drain", (Task("cordonAndDrainNode", drain),), may_fail=True), *phases)
        return phases

    async def _run(self, ending: _Ending, phases: Sequence[Phase]) -> bool:
        """Run the phases; False when another sequence, which ends the machine itself, has replaced it."""
        async with ending.lock.renewed() if ending.lock else nullcontext():
            try:
                await self.sequencer.run(ending.name, phases, actor_id=ending.actor)
            except SequenceReplacedError:
                return False
            except Exception:  # the machine ends all the same
                if not ending.is_refused:
                    self.log.exception(f"sequence {ending.name}: failed, the machine ends all the same")
        return True

    async def _stay_up(self, ending: _Ending, lock: SequenceLock) -> None:
        """End a sequence before it has stopped a service that others need: what it has ended begins anew."""
        self.log.error(f"sequence {ending.name}: the node stays up", reason=lock.refusal)
        await lock.release()
        ending.stay()
        failure = "what the sequence has ended does not begin anew"
        await self._attempt(RESUME_TIMEOUT, self.hooks.resume, failure)

    def _announce_end(self, ending: _Ending) -> None:
        """Send clients that what is left, the API, ends with the machine.

        Existing ones wait for the begin of one of these: of stopAllServices at a shutdown and a reset, of
        kexec at an upgrade, of reboot where keys were pressed. The firmware starts what is next, not kexec.
        """
        endings = [("stopEverything", "stopAllServices")]
        if ending.action is PowerAction.REBOOT:
            endings = [("kexec", "kexecPrepare"), *endings, ("reboot", "reboot")]
        for phase, task in endings:
            for event in (
                pb.PhaseEvent(phase=phase, action=pb.PhaseEvent.START),
                pb.TaskEvent(task=task, action=pb.TaskEvent.START),
            ):
                self.events.publish(event, actor_id=ending.actor)
        self.events.publish(pb.RestartEvent(cmd=ending.action.value), actor_id=ending.actor)

    async def _attempt(self, limit: float, work: Hook, failure: str) -> None:
        """Do what others wait for but the machine's end does not depend on; ``limit`` in seconds."""
        with trio.move_on_after(limit) as scope:
            try:
                await work()
            except (RpcError, OSError) as error:
                self.log.warning(failure, reason=str(error))
        if scope.cancelled_caught:
            self.log.warning(failure, reason=f"it takes more than {limit:.0f} s")


async def finish(action: PowerAction, switch: PowerSwitch, mounts: Mounts, log: Log) -> None:
    """Sync the disks, then reboot, halt or power off."""
    with trio.move_on_after(FLUSH_TIMEOUT) as scope:
        # A disk that was removed makes sync wait for ever: leave the thread behind then.
        await trio.to_thread.run_sync(switch.flush, abandon_on_cancel=True)
    if scope.cancelled_caught:
        stuck = find_persistent(mounts)
        log.error(f"the disks did not take everything within {FLUSH_TIMEOUT:.0f} s", mounts=stuck)
    log.info(f"{action.name.lower().replace('_', ' ')} now")
    await trio.to_thread.run_sync(partial(switch.press, action))
