"""Run one service: wait, prepare, start, watch, restart."""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from io import FileIO
from math import inf

import trio

from talos.api.rpc import RpcError
from talos.machined.node.child import Child
from talos.machined.node.ports.services import ServiceState, ServiceStatus
from talos.machined.services.health_watch import HealthWatch
from talos.machined.services.lifecycle import FOLLOWERS, Lifecycle
from talos.machined.services.output import ServiceOutput
from talos.machined.services.process_start import ProcessStarter, make_directory
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.spec import (
    Fork,
    InProcess,
    Isolate,
    Restart,
    RunContainer,
    ServiceSpec,
)
from talos.machined.services.zygote_client import ZygoteLostError
from talos.process.ready import READY_MESSAGE
from talos.system.backoff import Backoff
from talos.system.errors import UserError
from talos.system.process import describe_exit

RESTART_BACKOFF = Backoff(0.2, 30.0)
"""Seconds before a service that ended is restarted."""
BACKOFF_RESET = 20.0
"""Seconds that a process has to run to count as successful, which resets the backoff. What it takes to
prepare one doesn't count: the failing pull of an image takes longer."""
AGAIN = "starting again"
"""Part of the message after a run that ended, or never began."""
FINISHED = "Service finished successfully"
"""The message after a run that was ended on purpose."""


class Runner:
    """One service. :meth:`run` keeps it running until :meth:`stop`."""

    def __init__(self, spec: ServiceSpec, life: Lifecycle, context: RunnerContext) -> None:
        self.spec = spec
        self.life = life
        self.health = HealthWatch(spec.health, life, context.connect, context.log)
        self._context = context
        self._output = ServiceOutput(spec, context.logs)
        self._starter = ProcessStarter(spec, context, self._output)
        self._child: Child | None = None
        self._started = inf
        self._delays = iter(RESTART_BACKOFF)
        self._stopping = trio.Event()
        self._scope = trio.CancelScope()
        self._preparing = trio.CancelScope()
        self._is_requested = False
        self._is_terminated = False
        """Whether the process is being ended so that another one begins."""
        self._exit_code: int | None = None
        """Of the last run; None when there was none."""

    def request_start(self) -> None:
        """Have the next :meth:`run` start it, unless it is stopped before."""
        self._is_requested = True

    @property
    def is_in_demand(self) -> bool:
        """Whether it runs, or shall."""
        return self._is_requested or not self.life.has_ended

    async def run(self, dependencies: Sequence[Lifecycle]) -> None:
        """From STARTING to FINISHED, FAILED or SKIPPED; once for each request."""
        if not self._is_requested:
            return
        self._is_requested = False
        reason = self.spec.skip(self._context.service)
        if reason:
            if self.life.state is ServiceState.SKIPPED:
                return
            self.life.step(ServiceState.SKIPPED, reason)
            return
        self.life.step(ServiceState.STARTING, "Starting service")
        self._stopping = trio.Event()
        with trio.CancelScope() as self._scope:
            await self._wait_for_conditions(dependencies)
            with self._output.open() as reading:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._output.collect, reading)
                    await self._keep_running(dependencies)
                    nursery.cancel_scope.cancel()
        # Stopped while it was being started: by now there may be a process.
        await self._end_process()
        if self.life.state is not ServiceState.STOPPING:
            self.life.step(ServiceState.STOPPING, "Stopping service")
        self.life.step(ServiceState.FINISHED, FINISHED)

    async def abandon(self, reason: str) -> bool:
        """End what a run that has failed left behind; True unless it shall stay stopped."""
        with trio.CancelScope(shield=True):
            await self._end_process()
        if ServiceState.FAILED in FOLLOWERS[self.life.state]:
            self.life.step(ServiceState.FAILED, reason)
        self._is_requested = not self._stopping.is_set()
        return self._is_requested

    def snapshot(self) -> ServiceStatus:
        """The service as the API shows it."""
        is_daemon = isinstance(self.spec.start, Fork)
        return replace(self.life.snapshot(), is_daemon=is_daemon, group=self.spec.group)

    async def stop(self) -> None:
        """Stop it with its signal, after ``stop_timeout`` with SIGKILL; return when it has ended."""
        self._is_requested = False
        if self.life.has_ended:
            return
        self._stopping.set()
        if self._child is None or self._child.has_ended:
            self._scope.cancel()
        await self._end_process()
        await self.life.wait(lambda life: life.state in (ServiceState.FINISHED, ServiceState.FAILED))

    def terminate(self) -> None:
        """Send SIGTERM to the process; the runner starts the next, with the events of a stop and a start.

        A container that is not started yet, as its image is being pulled, is made anew; a pause ends.
        """
        if self._child is None or self._child.has_ended:
            self._delays = iter(RESTART_BACKOFF)
            self._preparing.cancel()
        else:
            if self.life.state is ServiceState.RUNNING:
                self._is_terminated = True
                self.life.step(ServiceState.STOPPING, f"Sending SIGTERM to PID {self._child.pid}")
            self._child.signal(signal.SIGTERM)

    async def _end_process(self) -> None:
        child = self._child
        if child is None or child.has_ended:
            return
        if self.life.state is not ServiceState.STOPPING:
            name = self.spec.stop_signal.name
            self.life.step(ServiceState.STOPPING, f"Sending {name} to PID {child.pid}")
        child.signal(self.spec.stop_signal)
        with trio.move_on_after(self.spec.stop_timeout):
            await child.wait()
        if not child.has_ended:
            self._context.log.warning("a service had to be killed", id=self.spec.id)
            child.signal(signal.SIGKILL)
            await child.wait()

    async def _wait_for_conditions(self, dependencies: Sequence[Lifecycle]) -> None:
        state = self._context.service.state
        waits: dict[str, Callable[[], Awaitable[None]]] = {
            f'service "{other.id}" to be "up"': partial(other.wait, _is_up)
            for other in dependencies
            if not other.is_up
        }
        waits |= {condition.text: partial(condition.wait, state) for condition in self.spec.conditions}
        waiting = list(waits)

        async def wait(text: str) -> None:
            await waits[text]()
            waiting.remove(text)
            if waiting:
                self.life.step(ServiceState.WAITING, f"Waiting for {', '.join(waiting)}")

        if waiting:
            self.life.step(ServiceState.WAITING, f"Waiting for {', '.join(waiting)}")
        async with trio.open_nursery() as nursery:
            for text in waits:
                nursery.start_soon(wait, text)

    async def _keep_running(self, dependencies: Sequence[Lifecycle]) -> None:
        self._delays = iter(RESTART_BACKOFF)
        while True:
            self._started, self._exit_code, self._is_terminated = inf, None, False
            try:
                end = await self._run_once()
            except (OSError, ZygoteLostError, UserError, RpcError) as error:
                end = f"Could not start: {error}"
            except Exception as error:
                self._context.log.exception("a service did not start", id=self.spec.id)
                end = f"Could not start: {error}"
            if self._stopping.is_set() or self._is_done:
                return
            if trio.current_time() - self._started > BACKOFF_RESET:
                self._delays = iter(RESTART_BACKOFF)
            if self._is_terminated:
                self.life.step(ServiceState.FINISHED, FINISHED)
                self.life.step(ServiceState.STARTING, "Starting service")
                await self._wait_for_conditions(dependencies)
                continue
            delay = next(self._delays)
            self.life.step(ServiceState.WAITING, f"{end}, {AGAIN} in {delay:.1f} s")
            with trio.move_on_after(delay) as self._preparing:
                await self._stopping.wait()
                return

    @property
    def _is_done(self) -> bool:
        """Whether its end was what it was started for."""
        match self.spec.restart:
            case Restart.ALWAYS:
                return False
            case Restart.NEVER:
                return self._exit_code is not None
            case Restart.UNTIL_SUCCESS:
                return self._exit_code == 0

    async def _run_once(self) -> str:
        self.life.step(ServiceState.PREPARING, "Running pre state")
        for directory in self.spec.directories:
            make_directory(directory)
        await self.spec.prepare(self._context.service)
        if isinstance(self.spec.start, InProcess):
            self.life.step(ServiceState.RUNNING, "Running in PID 1")
            self.life.set_health(healthy=True, message="")
            await self._watch(None, -1)
            return "ended"
        if isinstance(self.spec.start, RunContainer):
            return await self._run_container(self.spec.start)
        reading, writing = os.pipe()
        with FileIO(reading), FileIO(writing, "w") as ready:
            child = await self._starter.start(self.spec.start, writing)
            ready.close()
            return await self._accompany(child, reading, f"Process started with PID {child.pid}")

    async def _run_container(self, start: RunContainer) -> str:
        # Most nodes' daemons are no containers, and none is while a node is in maintenance.
        from talos.machined.services.container import start_container

        def report(message: str) -> None:
            self.life.step(ServiceState.PREPARING, message)

        context = self._context
        self._child = None
        with trio.CancelScope() as self._preparing:
            async with start_container(
                start, self.spec, context.service, context.connect, context.groups, self._output.path, report
            ) as child:
                text = f"Started task {self.spec.id} (PID {child.pid}) for container {self.spec.id}"
                return await self._accompany(child, -1, text)
        return "Its start was given up"

    async def _accompany(self, child: Child, ready: int, message: str) -> str:
        """From the start of a process to its end; how it ended."""
        self._child, self._started = child, trio.current_time()
        self.life.pid = child.pid
        self.life.step(ServiceState.RUNNING, message)
        await self._watch(child, ready)
        self._exit_code = await child.wait()
        return f"Process {child.pid} ended with {describe_exit(self._exit_code)}"

    async def _watch(self, child: Child | None, ready: int) -> None:
        """Run health checks until the process has ended."""
        self.health.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.health.run, child)
            if child is None:
                await self._stopping.wait()
            else:
                if isinstance(self.spec.start, Fork | Isolate):
                    nursery.start_soon(self._await_readiness, child, ready)
                await child.wait()
            nursery.cancel_scope.cancel()
        if isinstance(self.spec.start, Isolate):
            self._context.service.workloads.detach()

    async def _await_readiness(self, child: Child, ready: int) -> None:
        os.set_blocking(ready, False)
        await trio.lowlevel.wait_readable(ready)
        if os.read(ready, len(READY_MESSAGE)) == READY_MESSAGE:
            if isinstance(self.spec.start, Isolate):
                self._context.service.workloads.attach(child.pid)
            self.health.set_ready()


def _is_up(life: Lifecycle) -> bool:
    return life.is_up
