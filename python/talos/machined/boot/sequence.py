"""Sequences: phases one after another, the tasks of a phase concurrently, all published as events."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio

from talos.api.common.common_pb2 import Code as CommonCode
from talos.api.common.common_pb2 import Error as CommonError
from talos.api.machine import machine_pb2 as pb
from talos.machined.node.events import EventLog
from talos.machined.node.ports.power import SequenceLockedError
from talos.system.logging import Log

YIELDING = frozenset({"initialize", "boot"})
"""Any other sequence may take over: a machine without a config waits for it in the first, a control plane
node for the bootstrap of etcd in the second, however late."""


class TaskFailedError(Exception):
    """A task of a sequence failed, and with it the sequence."""


class SequenceReplacedError(Exception):
    """Another sequence took over before this one was done."""


@dataclass(frozen=True, slots=True)
class Task:
    """One step. ``name`` is what events and the log show."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Phase:
    """Tasks that run concurrently. Errors of one that may fail are only logged."""

    name: str
    tasks: tuple[Task, ...]
    may_fail: bool = False


class Sequencer:
    """Runs one sequence at a time."""

    def __init__(self, events: EventLog, log: Log) -> None:
        self._events = events
        self._log = log
        self._running = ""
        self._scope = trio.CancelScope()
        self._idle = trio.Event()
        self._idle.set()

    @property
    def running(self) -> str:
        """The name of the sequence that runs, if one does."""
        return self._running

    @property
    def is_locked(self) -> bool:
        """Whether the sequence that runs does not give way to another one."""
        return bool(self._running) and self._running not in YIELDING

    def reserve(self, name: str, *, takeover: bool = False) -> str:
        """Reserve the sequencer for this sequence; its actor id. SequenceLockedError."""
        actor_id = str(uuid.uuid4())
        if self.is_locked and not takeover:
            text = f"sequence not started: locked, {self._running} is running"
            error = CommonError(code=CommonCode.LOCKED, message=text)
            event = pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.NOOP, error=error)
            self._events.publish(event, actor_id=actor_id)
            self._log.warning(f"sequence {name}: not started", running=self._running)
            raise SequenceLockedError(actor_id)
        self._scope.cancel()
        self._running = name
        return actor_id

    async def run(self, name: str, phases: Sequence[Phase], *, actor_id: str = "") -> None:
        """Run a sequence to its end; TaskFailedError, SequenceReplacedError."""
        await self._idle.wait()
        self._idle = trio.Event()
        self._running = name
        self._publish(name, pb.SequenceEvent.START, actor_id)
        try:
            with trio.CancelScope() as self._scope:
                for number, phase in enumerate(phases, 1):
                    await self._run_phase(phase, f"{number}/{len(phases)}", actor_id)
        except Exception as error:
            self._publish(name, pb.SequenceEvent.NOOP, actor_id, error)
            raise
        finally:
            if self._running == name:
                self._running = ""
            self._idle.set()
        if self._scope.cancelled_caught:
            self._publish(name, pb.SequenceEvent.NOOP, actor_id)
            raise SequenceReplacedError(name)
        self._publish(name, pb.SequenceEvent.STOP, actor_id)

    async def _run_phase(self, phase: Phase, number: str, actor_id: str) -> None:
        began = trio.current_time()
        failures: tuple[Exception, ...] = ()
        self._log.info(f"phase {phase.name} ({number}): {len(phase.tasks)} task(s)")
        self._events.publish(pb.PhaseEvent(phase=phase.name, action=pb.PhaseEvent.START), actor_id=actor_id)
        try:
            async with trio.open_nursery() as nursery:
                for task in phase.tasks:
                    nursery.start_soon(self._run_task, phase, task, actor_id)
        except* TaskFailedError as group:
            failures = group.exceptions
        if failures:
            raise failures[0]
        self._events.publish(pb.PhaseEvent(phase=phase.name, action=pb.PhaseEvent.STOP), actor_id=actor_id)
        self._log.info(f"phase {phase.name} ({number}): done, {trio.current_time() - began:.3f}s")

    async def _run_task(self, phase: Phase, task: Task, actor_id: str) -> None:
        began = trio.current_time()
        self._events.publish(pb.TaskEvent(task=task.name, action=pb.TaskEvent.START), actor_id=actor_id)
        try:
            await task.run()
        except Exception as error:
            if not phase.may_fail:
                raise TaskFailedError(f"task {task.name} of phase {phase.name} failed: {error}") from error
            self._log.exception(f"task {task.name}: failed, which is no reason to stop")
        self._events.publish(pb.TaskEvent(task=task.name, action=pb.TaskEvent.STOP), actor_id=actor_id)
        self._log.debug(f"task {task.name}: done, {trio.current_time() - began:.3f}s")

    def _publish(
        self,
        name: str,
        action: pb.SequenceEvent.Action,
        actor_id: str,
        error: Exception | None = None,
    ) -> None:
        verbs = {pb.SequenceEvent.START: "started", pb.SequenceEvent.STOP: "done"}
        verb = verbs.get(action, "did not end well" if error else "gave way to another")
        self._log.info(f"sequence {name}: {verb}", **({"error": str(error)} if error else {}))
        event = pb.SequenceEvent(sequence=name, action=action)
        if error is not None:
            event.error.CopyFrom(CommonError(code=CommonCode.FATAL, message=str(error)))
        self._events.publish(event, actor_id=actor_id)
