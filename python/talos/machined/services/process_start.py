"""Start the process of a service: a fork of the zygote, or a program of its own."""

import os
import socket
from contextlib import suppress
from pathlib import Path

from talos.machined.node.child import Child
from talos.machined.node.resources import read_variables
from talos.machined.services.listener import open_listener
from talos.machined.services.output import ServiceOutput
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.spec import ENVIRONMENT, Directory, Execute, Fork, Isolate, ServiceSpec
from talos.machined.services.zygote_request import ExecuteRequest, ForkRequest, IsolateRequest
from talos.system.folders import opening_folder
from talos.system.process import set_oom_score, spawn


class ProcessStarter:
    """Starts one service, time and again."""

    def __init__(self, spec: ServiceSpec, context: RunnerContext, output: ServiceOutput) -> None:
        self._spec = spec
        self._context = context
        self._output = output
        self._listener: socket.socket | None = None
        """Of a daemon that listens, for as long as PID 1 runs: no other gets its port between two runs."""

    async def start(self, start: Fork | Isolate | Execute, ready: int) -> Child:
        """Start the process in its control group; ``ready`` is the pipe on which it reports readiness.

        OSError, ZygoteLostError.
        """
        match start:
            case Isolate():
                request = IsolateRequest(title=self._spec.id)
                child = await self._context.zygote.fork(request, self._output.writing, ready)
            case Fork():
                child = await self._fork(start, ready)
            case Execute():
                child = await self._execute(start)
        self._settle(child.pid)
        return child

    async def _fork(self, start: Fork, ready: int) -> Child:
        request = ForkRequest(
            module=start.module,
            title=self._spec.id,
            uid=start.uid,
            gid=start.gid,
            capabilities=start.capabilities,
            paths=start.paths,
            sockets=start.sockets,
            families=start.families,
            environment=ENVIRONMENT,
        )
        if start.listens and self._listener is None:
            self._listener = open_listener()
        handed = (self._listener.fileno(),) if self._listener else ()
        return await self._context.zygote.fork(request, self._output.writing, ready, *handed)

    async def _execute(self, start: Execute) -> Child:
        workloads, output = self._context.service.workloads, self._output.writing
        variables = await read_variables(self._context.service.state)
        environment = {**start.environment, **variables}
        if start.is_workload and workloads.is_isolated:
            request = ExecuteRequest(argv=start.argv, environment=environment)
            return await self._context.zygote.fork(request, output, workloads.pidfd)
        pid = spawn(start.argv, env=environment, stdout=output, stderr=output)
        return self._context.reaper.register(pid)

    def _settle(self, pid: int) -> None:
        """Put a process into its group; it may have ended already, and a kernel may refuse."""
        with suppress(OSError):
            if self._spec.group:
                self._context.groups.join(self._spec.group, pid)
        set_oom_score(pid, self._spec.oom_score_adj)


def make_directory(directory: Directory) -> None:
    """Make a directory, or set owner and mode of an existing one. OSError.

    A pod may have left a link in its place, which would have another directory given to the service.
    """
    with opening_folder(Path(directory.path)) as place:
        os.fchown(place, directory.uid, directory.gid)
        os.fchmod(place, directory.mode)
