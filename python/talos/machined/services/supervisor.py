"""The supervisor: all services, their order, and the actions users may take on them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import TopologicalSorter
from math import inf
from typing import override

import trio

from talos.api.definitions.runtime_pb2 import ServicePIDSpec
from talos.api.machine import machine_pb2 as pb
from talos.machined.node.events import EventLog
from talos.machined.node.ports.services import (
    ServiceRefusedError,
    Services,
    ServiceState,
    ServiceStatus,
    UnknownServiceError,
)
from talos.machined.services.lifecycle import Lifecycle, make_health
from talos.machined.services.runner import BACKOFF_RESET, RESTART_BACKOFF, Runner
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.spec import ApiAction, Fork, Isolate, ServiceSpec
from talos.resource import changes, kinds
from talos.resource.state import State, StateError
from talos.system.wakeup import Wakeup

OWNER = "v1alpha1.ServiceController"
"""The owner of the service resources, as upstream names it."""

PUBLISH_RETRY = 0.2
"""Seconds until a resource that the State refused is written again."""


class Supervisor(Services):
    """Starts and stops services. :meth:`run` has to run in a task."""

    def __init__(
        self, specs: Sequence[ServiceSpec], context: RunnerContext, events: EventLog, state: State
    ) -> None:
        self._context = context
        self._events = events
        self._state = state
        self._denied = ""
        self._runners: dict[str, Runner] = {}
        self._dirty: dict[str, Lifecycle] = {}
        self._something_dirty = Wakeup()
        self._to_start, self._starts = trio.open_memory_channel[Runner](inf)
        for spec in specs:
            has_health = spec.health is not None or isinstance(spec.start, Fork | Isolate)
            life = Lifecycle(spec.id, has_health=has_health, report=self._report)
            self._runners[spec.id] = Runner(spec, life, context)
        self._order = _sort({spec.id: spec.depends for spec in specs})

    async def run(self) -> None:
        """Run the services that are started, and publish their states."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._publish)
            async for runner in self._starts:
                nursery.start_soon(self._run_service, runner)

    async def _run_service(self, runner: Runner) -> None:
        """Run one service; an exception that no code expects fails it alone, and it is started anew."""
        delays = iter(RESTART_BACKOFF)
        while True:
            began = trio.current_time()
            try:
                await runner.run(self._dependencies_of(runner))
            except Exception as error:
                self._context.log.exception("a service failed unexpectedly", id=runner.spec.id)
                if not await runner.abandon(f"Unexpected error: {error}") or self._denied:
                    return
            else:
                return
            if trio.current_time() - began > BACKOFF_RESET:
                delays = iter(RESTART_BACKOFF)
            await trio.sleep(next(delays))

    # For the API.

    @override
    def list(self) -> Sequence[ServiceStatus]:
        """Every service that was ever started, ordered by id; one on demand while there is a demand."""
        return [
            runner.snapshot()
            for _, runner in sorted(self._runners.items())
            if runner.life.state is not ServiceState.INITIALIZED
            and not (runner.spec.on_demand and runner.life.state is ServiceState.FINISHED)
        ]

    @override
    def get(self, id: str) -> ServiceStatus:
        return self._find(id).snapshot()

    @override
    async def start(self, id: str) -> None:
        """Start a service on a user's behalf."""
        self._check_action(id, ApiAction.START)
        self.start_soon([id])

    @override
    async def stop(self, id: str) -> None:
        """Stop a service on a user's behalf."""
        self._check_action(id, ApiAction.STOP)
        await self._find(id).stop()

    @override
    async def restart(self, id: str) -> None:
        """Stop and start a service on a user's behalf."""
        self._check_action(id, ApiAction.RESTART)
        await self._find(id).stop()
        self.start_soon([id])

    @override
    async def terminate(self, id: str) -> None:
        """Have a service's process end; it is started again."""
        self._find(id).terminate()

    @override
    async def halt(self, id: str) -> None:
        await self._find(id).stop()

    @override
    def record(self, id: str, message: str) -> None:
        self._find(id).life.record(message)

    @override
    async def probe(self, ids: Iterable[str]) -> Mapping[str, str]:
        failures: dict[str, str] = {}

        async def probe(runner: Runner) -> None:
            if failure := await runner.health.probe():
                failures[runner.spec.id] = failure

        async with trio.open_nursery() as nursery:
            for name in ids:
                nursery.start_soon(probe, self._find(name))
        return failures

    def _check_action(self, id: str, action: ApiAction) -> None:
        if action not in self._find(id).spec.actions:
            raise ServiceRefusedError(id)

    # For the sequences.

    @override
    def start_soon(self, ids: Iterable[str]) -> None:
        """Start services that don't run yet; they wait for what they depend on."""
        for name in ids:
            runner = self._find(name)
            if self._denied:
                raise ServiceRefusedError(f"no service may start: {self._denied}")
            if runner.life.has_ended:
                runner.request_start()
                self._to_start.send_nowait(runner)

    async def wait_until_settled(self, ids: Iterable[str]) -> None:
        """Wait until services are up, or will not be."""
        for name in ids:
            await self._find(name).life.wait(lambda life: life.is_settled)

    def unsettled(self, ids: Iterable[str]) -> Mapping[str, str]:
        """The services among these that are not up, each with its state and last message."""
        lives = [self._find(name).life for name in ids]
        return {life.id: f"{life.state.value}: {life.last_message}" for life in lives if not life.is_settled}

    def deny_starts(self, reason: str) -> None:
        """From now on no service may start."""
        self._denied = reason

    async def stop_all(self, *, keep: frozenset[str] = frozenset()) -> None:
        """Stop all services but some, each after those that depend on it."""
        async with trio.open_nursery() as nursery:
            done = {name: trio.Event() for name in self._order}

            async def stop(id: str) -> None:
                for other in self._order:
                    if id in self._runners[other].spec.depends:
                        await done[other].wait()
                if id not in keep:
                    await self._runners[id].stop()
                done[id].set()

            for name in self._order:
                nursery.start_soon(stop, name)

    @property
    def ids(self) -> Sequence[str]:
        """Every service of the table, in the order in which they may start."""
        return self._order

    def _find(self, id: str) -> Runner:
        runner = self._runners.get(id)
        if runner is None:
            raise UnknownServiceError(id)
        return runner

    def _dependencies_of(self, runner: Runner) -> Sequence[Lifecycle]:
        others = [self._runners[name] for name in runner.spec.depends]
        return [other.life for other in others if not other.spec.on_demand or other.is_in_demand]

    # Publishing states.

    def _report(self, life: Lifecycle) -> None:
        self._context.log.info(f"service[{life.id}]({life.state.value}): {life.last_message}")
        self._events.publish(
            pb.ServiceStateEvent(
                service=life.id,
                action=life.state.name,
                message=life.last_message,
                health=make_health(life.health),
            )
        )
        self._dirty[life.id] = life
        self._something_dirty.set()

    async def _publish(self) -> None:
        while True:
            await self._something_dirty.wait()
            dirty, self._dirty = self._dirty, {}
            for life in dirty.values():
                try:
                    await self._publish_one(life)
                except Exception as error:  # noqa: BLE001 - the states of services are not worth a reboot
                    text = "a service can't be published yet"
                    if isinstance(error, StateError):
                        self._context.log.once(text, id=life.id, reason=str(error))
                        # Torn down when the process ended; it is created again.
                        with suppress(StateError):
                            await changes.destroy_if_present(self._state, kinds.SERVICE, life.id, owner=OWNER)
                    else:
                        self._context.log.once(text, id=life.id, error=error)
                    await trio.sleep(PUBLISH_RETRY)
                    self._dirty.setdefault(life.id, life)
                    self._something_dirty.set()

    async def _publish_one(self, life: Lifecycle) -> None:
        await self._publish_pid(life)
        if life.state in (ServiceState.FINISHED, ServiceState.FAILED, ServiceState.SKIPPED):
            await changes.destroy_if_present(self._state, kinds.SERVICE, life.id, owner=OWNER)
            return

        def change(spec: kinds.v1alpha1.ServiceSpec) -> None:
            spec.running = life.state is ServiceState.RUNNING
            spec.healthy = life.is_up
            spec.unknown = life.health.unknown and not life.is_up

        await changes.modify(self._state, kinds.SERVICE, life.id, change, owner=OWNER)

    async def _publish_pid(self, life: Lifecycle) -> None:
        """Publish the running process, which authorizes callers by pid."""
        try:
            namespace = os.readlink(f"/proc/{life.pid}/ns/mnt") if life.pid else ""  # noqa: PTH115
        except OSError:  # it has ended: the next step publishes that
            return
        if life.pid:
            spec = ServicePIDSpec(pid=life.pid, mount_namespace=namespace)
            await changes.put(self._state, kinds.SERVICE_PID, life.id, spec)
        else:
            await changes.destroy_if_present(self._state, kinds.SERVICE_PID, life.id)


def _sort(depends: Mapping[str, Sequence[str]]) -> Sequence[str]:
    for name, others in depends.items():
        missing = set(others) - depends.keys()
        if missing:
            raise ValueError(f"service {name} depends on {', '.join(sorted(missing))}: not in the table")
    return tuple(TopologicalSorter(depends).static_order())
