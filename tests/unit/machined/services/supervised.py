"""Scenarios of a supervisor with real processes. Run in a process of its own: it reaps everything.

Prints one JSON object with what the test looks at.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, override

import trio
from google.protobuf.message import Message

from talos.api.machine.machine_pb2 import ServiceStateEvent
from talos.machined.containerd import pipes
from talos.machined.containerd.spec import ContainerSpec
from talos.machined.logs.store import LogStore
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.events import EventLog
from talos.machined.node.ports.services import ServiceState
from talos.machined.node.workloads import SANDBOXD, Workloads
from talos.machined.platform.platform import ContainerPlatform
from talos.machined.services import runner
from talos.machined.services import zygote as zygote_module
from talos.machined.services.processes import ProcessRunner
from talos.machined.services.reaper import Reaper
from talos.machined.services.runner import RESTART_BACKOFF
from talos.machined.services.runner_context import RunnerContext
from talos.machined.services.sandboxd import SANDBOXD_SERVICE
from talos.machined.services.spec import (
    ApiAction,
    Execute,
    Fork,
    Restart,
    RunContainer,
    ServiceContext,
    ServiceSpec,
)
from talos.machined.services.supervisor import Supervisor
from talos.machined.services.zygote_client import Zygote
from talos.process.run import Daemon, host
from talos.resource import changes, kinds
from talos.resource.memory.state import MemoryState
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.rpc.channel import open_channel
from talos.system import kernel
from talos.system.backoff import Backoff
from talos.system.cgroups import NoGroups
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.process import spawn
from talos.system.sandbox import Paths

type Scenario = Callable[["Bench"], Awaitable[dict[str, Any]]]

DAEMON = """
import contextlib, os, sys, trio
from talos.rpc.server import serve as serve_socket
from talos.process.listener import LISTENER_FD, take_listener
from talos.process.run import run
from talos.process.ready import notify_ready

def main():
    run(serve, name="sample")

async def serve(daemon):
    print("hello from", os.getpid(), flush=True)
    folder = os.path.dirname(__file__)
    async with contextlib.AsyncExitStack() as stack:
        if os.access(folder, os.W_OK):  # the scenario needs a socket
            while os.path.exists(folder + "/wait"):
                await trio.sleep(0.01)
            await stack.enter_async_context(serve_socket(daemon, [], folder + "/socket"))
        if LISTENER_FD in os.environ:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(take_listener()))
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(trio.serve_listeners, answer, [listener])
            stack.callback(nursery.cancel_scope.cancel)
        notify_ready()
        await daemon.stopping.wait()
    print("goodbye", flush=True)

async def answer(stream):
    await stream.send_all(str(os.getpid()).encode())
    await stream.aclose()
"""


def sh(id: str, script: str, **options: Any) -> ServiceSpec:
    return ServiceSpec(id=id, start=Execute(argv=("/bin/sh", "-c", script)), **options)


class Bench:
    """Everything a supervisor needs, for real."""

    def __init__(self, daemon: Daemon, connection: socket.socket, pid: int) -> None:
        self.daemon = daemon
        self.reaper = Reaper()
        daemon.bridge.loop.add_signal_handler(signal.SIGCHLD, self.reaper.drain)
        self.zygote = Zygote(self.reaper, connection, pid)
        self.logs, self.events = LogStore(), EventLog()
        self.workloads = Workloads()
        self.state = MemoryState()

    def make_supervisor(self, *specs: ServiceSpec) -> Supervisor:
        platform = ContainerPlatform(arguments=parse_cmdline(""), handover=Path("/nonexistent"))
        connect = partial(open_channel, self.daemon)
        context = RunnerContext(
            reaper=self.reaper,
            zygote=self.zygote,
            logs=self.logs,
            groups=NoGroups(),
            service=ServiceContext(
                platform=platform,
                state=self.state,
                connect=connect,
                etcd=EtcdControl(),
                processes=ProcessRunner(self.reaper, self.logs),
                workloads=self.workloads,
            ),
            connect=connect,
            log=self.daemon.log,
        )
        return Supervisor(specs, context, self.events, self.state)


async def until(predicate: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition that has no event."""
    with trio.fail_after(seconds):
        while not predicate():  # noqa: ASYNC110 - see above
            await trio.sleep(0.005)


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


async def exit_codes(bench: Bench) -> dict[str, Any]:
    """300 programs, many with orphans: each exit code reaches its own waiter."""
    wrong: list[Any] = []
    limit = trio.CapacityLimiter(32)

    async def one(number: int) -> None:
        async with limit:
            want = number % 200 if number % 7 else -9
            orphan = "(sleep 0.02; exit 77) & " if number % 2 else ""
            script = orphan + ("kill -9 $$" if want < 0 else f"exit {want}")
            child = bench.reaper.register(spawn(["/bin/sh", "-c", script], env=dict(os.environ)))
            got = await child.wait()
            if got != want:
                wrong.append((number, want, got))

    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(one, number)
    await until(lambda: bench.reaper.orphans >= 130)
    return {"wrong": wrong, "orphans": bench.reaper.orphans}


async def forked(bench: Bench) -> dict[str, Any]:
    """A daemon from the zygote: ready, logged, killed and back, stopped."""
    supervisor = bench.make_supervisor(
        ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53))
    )
    result: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await supervisor.wait_until_settled(["sample"])
        pid = supervisor.get("sample").pid
        status = read(f"/proc/{pid}/status")
        lines = {line.split(":")[0]: line for line in status.splitlines()}
        result["uid"], result["parent"] = lines["Uid"], int(lines["PPid"].split()[1])
        result["me"] = os.getpid()
        result["title"] = read(f"/proc/{pid}/cmdline").rstrip("\0")
        resource = await bench.state.get(kinds.SERVICE, "sample")
        await until(lambda: supervisor.get("sample").health.healthy)
        await trio.testing.wait_all_tasks_blocked()
        resource = await bench.state.get(kinds.SERVICE, "sample")
        result["resource"] = [resource.spec.running, resource.spec.healthy, resource.spec.unknown]
        os.kill(pid, signal.SIGKILL)
        began = trio.current_time()
        await until(lambda: supervisor.get("sample").pid not in (0, pid))
        await supervisor.wait_until_settled(["sample"])
        result["back after"] = trio.current_time() - began
        await supervisor.stop_all()
        result["end"] = supervisor.get("sample").state.value
        async with bench.logs.read("sample") as chunks:
            result["log"] = b"".join([chunk async for chunk in chunks]).decode()
        result["events"] = [event.state.value for event in supervisor.get("sample").events]
        nursery.cancel_scope.cancel()
    return result


async def kept_listener(bench: Bench) -> dict[str, Any]:
    """A daemon that listens is killed: no other gets its port meanwhile, and clients are answered."""
    start = Fork(module="sample_daemon", uid=53, gid=53, listens=True)
    supervisor = bench.make_supervisor(ServiceSpec(id="sample", start=start))
    taken, answers = list[int](), list[int]()

    async def read_pid(port: int) -> int:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            return int(b"".join([part async for part in stream]))

    def find_ports() -> set[int]:
        rows = [line.split() for line in read("/proc/net/tcp").splitlines()[1:]]
        inodes = {row[9]: int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A"}
        links = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return {port for inode, port in inodes.items() if f"socket:[{inode}]" in links}

    def try_to_take(port: int) -> None:
        for option in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as other, contextlib.suppress(OSError):
                if option:
                    other.setsockopt(socket.SOL_SOCKET, option, 1)
                other.bind(("127.0.0.1", port))
                other.listen()
                taken.append(option)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await supervisor.wait_until_settled(["sample"])
        (port,) = find_ports()
        with trio.fail_after(30):
            for _ in range(3):
                pid = supervisor.get("sample").pid
                answers.append(int(await read_pid(port) == pid))
                os.kill(pid, signal.SIGKILL)
                await until(lambda: supervisor.get("sample").state is ServiceState.WAITING)
                try_to_take(port)
                answering = await read_pid(port)
                await supervisor.wait_until_settled(["sample"])
                answers.append(int(answering == supervisor.get("sample").pid))
        await supervisor.stop_all()
        try_to_take(port)
        nursery.cancel_scope.cancel()
    return {"taken": taken, "answers": answers}


async def lost_zygote(bench: Bench) -> dict[str, Any]:
    """The zygote is killed: another one takes its place and can fork."""
    supervisor = bench.make_supervisor(
        ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53))
    )
    reports: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        nursery.start_soon(bench.zygote.supervise, reports.append)
        old = bench.zygote.process.pid
        os.kill(old, signal.SIGKILL)
        supervisor.start_soon(["sample"])
        with trio.fail_after(30):
            await supervisor.wait_until_settled(["sample"])
        new = bench.zygote.process.pid
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"replaced": old != new, "reports": reports}


async def dependencies(bench: Bench) -> dict[str, Any]:
    """Started after, stopped before what they depend on."""
    supervisor = bench.make_supervisor(
        sh("c", "exec sleep 60", depends=("b",)),
        sh("b", "exec sleep 60", depends=("a",)),
        sh("a", "exec sleep 60"),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        async with bench.events.follow(tail=-1) as events:
            supervisor.start_soon(["c", "b"])
            await until(lambda: supervisor.get("c").state is ServiceState.WAITING)
            waiting = supervisor.get("c").events[-1].message
            supervisor.start_soon(["a"])
            await supervisor.wait_until_settled(["a", "b", "c"])
            await supervisor.stop_all()
            seen: list[str] = []
            while seen.count("FINISHED") < 3:
                event = cast("ServiceStateEvent", (await anext(events)).payload)
                name = ServiceStateEvent.Action.Name(event.action)
                seen += [event.service, name] if name in ("RUNNING", "FINISHED") else []
        nursery.cancel_scope.cancel()
    return {"waiting": waiting, "seen": seen}


async def restarts(bench: Bench) -> dict[str, Any]:
    """A service that fails is started again, with growing pauses; one that won't end is killed."""
    folder = tempfile.mkdtemp()
    supervisor = bench.make_supervisor(
        sh(
            "flaky",
            f"echo run; mkdir {folder}/1 2>/dev/null && exit 3; mkdir {folder}/2 && exit 4; exec sleep 60",
        ),
        sh("deaf", "trap '' TERM; echo deaf; while :; do sleep 1; done", stop_timeout=0.2),
        ServiceSpec(id="missing", start=Execute(argv=("/no/such/program",))),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["flaky", "deaf", "missing"])
        await until(lambda: [e.state.value for e in supervisor.get("flaky").events].count("Running") == 3)
        await until(lambda: "deaf" in bench.logs.ids() and supervisor.get("deaf").pid != 0)
        await trio.sleep(0.1)
        missing = supervisor.get("missing").events[-1].message
        await supervisor.stop_all()
        messages = [event.message for event in supervisor.get("flaky").events]
        nursery.cancel_scope.cancel()
    return {
        "messages": messages,
        "missing": missing,
        "ends": [supervisor.get(name).state.value for name in ("flaky", "deaf", "missing")],
    }


async def replaced(bench: Bench) -> dict[str, Any]:
    """A process that ends for the next one has the events of a stop and a start."""
    supervisor = bench.make_supervisor(sh("sample", "exec sleep 60"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        await supervisor.terminate("sample")
        await until(lambda: [e.state.value for e in supervisor.get("sample").events].count("Running") == 2)
        await supervisor.terminate("sample")
        await supervisor.stop_all()
        events = [(event.state.value, event.message) for event in supervisor.get("sample").events]
        nursery.cancel_scope.cancel()
    return {"states": [state for state, _ in events], "messages": [message for _, message in events]}


async def ends(bench: Bench) -> dict[str, Any]:
    """Services that run once, or until they succeed."""
    folder = tempfile.mkdtemp()
    supervisor = bench.make_supervisor(
        sh("once", "exit 3", restart=Restart.NEVER),
        sh("until", f"mkdir {folder}/1 2>/dev/null && exit 3; exit 0", restart=Restart.UNTIL_SUCCESS),
        ServiceSpec(id="missing", start=Execute(argv=("/no/such/program",)), restart=Restart.NEVER),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["once", "until", "missing"])
        await until(lambda: all(supervisor.get(name).state.value == "Finished" for name in ("once", "until")))
        await until(lambda: len(supervisor.get("missing").events) > 3)
        runs = {
            name: [event.state.value for event in supervisor.get(name).events].count("Running")
            for name in ("once", "until")
        }
        missing = supervisor.get("missing").state.value
        supervisor.start_soon(["once"])
        await until(lambda: [e.state.value for e in supervisor.get("once").events].count("Finished") == 2)
        nursery.cancel_scope.cancel()
    return {"runs": runs, "missing is tried again": missing != "Finished"}


async def health(bench: Bench) -> dict[str, Any]:
    """A probe that fails, then succeeds."""
    from talos.machined.services.health import Connect, HealthCheck

    path = tempfile.mkdtemp() + "/s"

    async def dial(connect: Connect) -> None:
        del connect
        async with await trio.open_unix_socket(path):
            pass

    check = HealthCheck(probe=dial, initial_delay=0.05, period=0.05, startup_grace=0.1)
    supervisor = bench.make_supervisor(sh("dialled", "exec sleep 60", health=check))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["dialled"])
        await until(lambda: not supervisor.get("dialled").health.unknown)
        before = supervisor.get("dialled").health
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            await supervisor.wait_until_settled(["dialled"])
            after = supervisor.get("dialled").health
            answers = await supervisor.probe(["dialled"])
        refusals = await supervisor.probe(["dialled"])
        await until(lambda: not supervisor.get("dialled").health.healthy)
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {
        "before": [before.healthy, before.last_message],
        "after": [after.healthy, after.last_message],
        "probed": [answers, list(refusals)],
        "end": supervisor.get("dialled").health.unknown,
    }


async def silence(bench: Bench) -> dict[str, Any]:
    """A daemon that is stopped answers nothing: it is killed and started again, a slow starter is not."""
    from talos.machined.services.health import HealthCheck, MethodProbe

    folder = trio.Path(sys.path[0])
    await folder.chmod(0o777)
    await (folder / "wait").touch()
    path = str(folder / "socket")
    check = HealthCheck(probe=MethodProbe(path), initial_delay=0.05, period=0.05, timeout=0.2, silence=0.5)
    supervisor = bench.make_supervisor(
        ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53), health=check)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        first = supervisor.get("sample").pid
        await trio.sleep(1)
        patient = (supervisor.get("sample").pid, supervisor.get("sample").health.unknown)
        await (folder / "wait").unlink()
        await until(lambda: supervisor.get("sample").health.healthy)
        await trio.sleep(0.3)
        os.kill(first, signal.SIGSTOP)
        await until(lambda: supervisor.get("sample").pid not in (0, first))
        await supervisor.wait_until_settled(["sample"])
        messages = [event.message for event in supervisor.get("sample").events]
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"patient": patient == (first, True), "messages": messages}


async def hung_start(bench: Bench) -> dict[str, Any]:
    """A daemon that never comes as far as its first answer is killed and started again."""
    from talos.machined.services.health import HealthCheck, MethodProbe

    folder = trio.Path(sys.path[0])
    await folder.chmod(0o777)
    await (folder / "wait").touch()
    check = HealthCheck(
        probe=MethodProbe(str(folder / "socket")),
        initial_delay=0.05,
        period=0.05,
        timeout=0.2,
        start_timeout=0.5,
    )
    supervisor = bench.make_supervisor(
        ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53), health=check)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        first = supervisor.get("sample").pid
        await until(lambda: supervisor.get("sample").pid not in (0, first))
        await (folder / "wait").unlink()
        await supervisor.wait_until_settled(["sample"])
        messages = [event.message for event in supervisor.get("sample").events]
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"messages": messages}


async def hung_zygote(bench: Bench) -> dict[str, Any]:
    """The zygote is stopped: it is killed and another one forks the daemon."""
    from talos.machined.services import zygote_client

    reports: list[str] = []
    limit, zygote_client.TICK = zygote_client.ANSWER_TIMEOUT, 0.05

    def report(text: str) -> None:
        reports.append(text)
        zygote_client.ANSWER_TIMEOUT = limit  # the next one has to import everything

    names = ("first", "second")
    supervisor = bench.make_supervisor(
        *(ServiceSpec(id=name, start=Fork(module="sample_daemon", uid=53, gid=53)) for name in names)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        nursery.start_soon(bench.zygote.supervise, report)
        supervisor.start_soon(["first"])
        await supervisor.wait_until_settled(["first"])
        old = bench.zygote.process.pid
        os.kill(old, signal.SIGSTOP)
        zygote_client.ANSWER_TIMEOUT = 0.2
        supervisor.start_soon(["second"])
        with trio.fail_after(30):
            await supervisor.wait_until_settled(["second"])
        messages = [event.message for event in supervisor.get("second").events]
        new = bench.zygote.process.pid
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"replaced": old != new, "reports": reports, "messages": messages}


async def permissions(bench: Bench) -> dict[str, Any]:
    """What the API may do."""
    supervisor = bench.make_supervisor(
        sh("kubelet", "exec sleep 60", actions=frozenset({ApiAction.START, ApiAction.RESTART})),
        sh("etcd", "exec sleep 60"),
    )
    refused: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await supervisor.start("kubelet")
        await supervisor.wait_until_settled(["kubelet"])
        first = supervisor.get("kubelet").pid
        await supervisor.restart("kubelet")
        await until(lambda: supervisor.get("kubelet").pid not in (0, first))
        for action, name in (("stop", "kubelet"), ("start", "etcd"), ("restart", "nothing")):
            try:
                await getattr(supervisor, action)(name)
            except Exception as error:  # noqa: BLE001 - its name is looked at
                refused.append(type(error).__name__)
        supervisor.deny_starts("the end is near")
        try:
            await supervisor.start("kubelet")
        except Exception as error:  # noqa: BLE001 - its name is looked at
            refused.append(str(error))
        listed = [status.id for status in supervisor.list()]
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"refused": refused, "listed": listed}


async def given_up(bench: Bench) -> dict[str, Any]:
    """A container that is ended while it is being made, as its image is pulled, is made anew."""
    made = 0

    async def make(_context: ServiceContext) -> ContainerSpec:
        nonlocal made
        made += 1
        if made == 1:
            await trio.sleep_forever()
        raise UserError(f"the spec of start {made} was read")

    supervisor = bench.make_supervisor(ServiceSpec(id="sample", start=RunContainer(make=make)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["sample"])
        await until(lambda: made == 1)
        await supervisor.terminate("sample")
        await until(lambda: any("start 2" in event.message for event in supervisor.get("sample").events))
        messages = [event.message for event in supervisor.get("sample").events]
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"messages": [message for message in messages if "starting again" in message]}


async def slow_failures(bench: Bench) -> dict[str, Any]:
    """Preparing that takes longer than a good run and fails doesn't shorten the pauses; one can be ended."""
    made = 0

    async def make(_context: ServiceContext) -> ContainerSpec:
        nonlocal made
        made += 1
        await trio.sleep(0.1)
        raise UserError("no such image")

    runner.BACKOFF_RESET = 0.01
    first = bench.make_supervisor(ServiceSpec(id="sample", start=RunContainer(make=make)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        first.start_soon(["sample"])
        await until(lambda: made == 3)
        messages = [event.message for event in first.get("sample").events]
        await first.stop_all()
        nursery.cancel_scope.cancel()
    runner.RESTART_BACKOFF, made = Backoff(60.0), 0
    second = bench.make_supervisor(ServiceSpec(id="sample", start=RunContainer(make=make)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second.run)
        second.start_soon(["sample"])
        await until(lambda: any("60.0 s" in event.message for event in second.get("sample").events))
        await second.terminate("sample")
        await until(lambda: made == 2)
        await second.stop_all()
        nursery.cancel_scope.cancel()
    return {"messages": [message for message in messages if "starting again" in message]}


async def stop_while_starting(bench: Bench) -> dict[str, Any]:
    """Whenever a stop comes, no process is left behind."""
    left: list[str] = []
    for number in range(20):
        supervisor = bench.make_supervisor(
            ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53), stop_timeout=2)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.run)
            supervisor.start_soon(["sample"])
            await trio.sleep(random.Random(number).random() * 0.08)
            await supervisor.stop_all()
            state = supervisor.get("sample").state
            if state not in (ServiceState.FINISHED, ServiceState.INITIALIZED):
                left.append(state.value)
            nursery.cancel_scope.cancel()
    children = read(f"/proc/self/task/{os.getpid()}/children").split()
    return {"left": left, "children": len(children)}


async def stop_before_start(bench: Bench) -> dict[str, Any]:
    """A stop that follows a start at once; then starts that follow each other at once."""
    supervisor = bench.make_supervisor(
        ServiceSpec(id="sample", start=Fork(module="sample_daemon", uid=53, gid=53), stop_timeout=2)
    )
    async with trio.open_nursery() as nursery:
        supervisor.start_soon(["sample"])
        await supervisor.stop_all()
        nursery.start_soon(supervisor.run)
        await trio.testing.wait_all_tasks_blocked()
        stopped = supervisor.get("sample").state.value
        supervisor.start_soon(["sample"])
        supervisor.start_soon(["sample"])
        await until(lambda: supervisor.get("sample").pid != 0)
        await supervisor.stop_all()
        messages = [event.message for event in supervisor.get("sample").events]
        nursery.cancel_scope.cancel()
    return {"stopped": stopped, "starts": messages.count("Starting service")}


@dataclass(slots=True)
class Broken:
    """A condition with a defect, twice."""

    text: str = "something"
    waits: int = 0

    async def wait(self, state: State) -> None:
        del state
        await trio.lowlevel.checkpoint()
        self.waits += 1
        if self.waits < 3:
            raise RuntimeError("a defect")


class RefusingState(MemoryState):
    """Fails as no State should, for a while."""

    failures = 3

    @override
    async def create[S: Message](self, resource: Resource[S], *, owner: str = "") -> Resource[S]:
        if resource.metadata.type == kinds.SERVICE.type and self.failures:
            self.failures -= 1
            raise RuntimeError("a defect")
        return await super().create(resource, owner=owner)


async def defects(bench: Bench) -> dict[str, Any]:
    """What no code expects, in the task of one service and in the one that publishes."""
    bench.state = RefusingState()
    broken = Broken()
    supervisor = bench.make_supervisor(
        sh("broken", "exec sleep 60", conditions=(broken,)),
        sh("sound", "exec sleep 60"),
        sh("stopped", "exec sleep 60"),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["broken", "sound", "stopped"])
        await until(lambda: supervisor.get("sound").pid != 0)
        await until(lambda: supervisor.get("broken").pid != 0)
        await changes.wait_for(bench.state, kinds.SERVICE, "broken", lambda found: found.spec.running)
        messages = [event.message for event in supervisor.get("broken").events]
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {
        "waits": broken.waits,
        "failures": sum(message.startswith("Unexpected error") for message in messages),
        "end": supervisor.get("broken").state.value,
    }


async def stopped_defect(bench: Bench) -> dict[str, Any]:
    """A service that is stopped while it pauses after a defect stays stopped."""
    broken = Broken(waits=-1000)
    supervisor = bench.make_supervisor(sh("broken", "exec sleep 60", conditions=(broken,)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["broken"])
        await until(lambda: supervisor.get("broken").state is ServiceState.FAILED)
        await supervisor.stop_all()
        waits = broken.waits
        await trio.sleep(2 * RESTART_BACKOFF.initial)
        again = broken.waits - waits
        broken.waits = 3
        supervisor.start_soon(["broken"])
        await until(lambda: supervisor.get("broken").pid != 0)
        await supervisor.stop_all()
        nursery.cancel_scope.cancel()
    return {"again": again}


WORKLOAD = """
if [ "$(cat /proc/1/comm)" = sandboxd ]; then
    mkdir -p {folder}/inside && mount -t tmpfs none {folder}/inside && touch {folder}/inside/file
    echo parent $(grep PPid: /proc/$$/status | cut -f2)
    echo processes $(cat /proc/[0-9]*/comm 2> /dev/null | sort -u)
    ( (sleep 0.01; exit 3) & )
    kill -TERM 1
fi
echo $$ > {folder}/pid
exec sleep 600
"""


async def isolation(bench: Bench) -> dict[str, Any]:
    """A service among workloads: its pid from outside, its mounts, its end with the first process."""
    folder = tempfile.mkdtemp()
    written, mounted = Path(folder, "pid"), Path(folder, "inside/file")
    argv = ("/bin/sh", "-c", WORKLOAD.format(folder=folder))
    supervisor = bench.make_supervisor(
        SANDBOXD_SERVICE,
        ServiceSpec(id="workload", start=Execute(argv=argv, is_workload=True), depends=(SANDBOXD,)),
    )
    result: dict[str, Any] = {}

    async def find_workload() -> int:
        """Its pid in its own namespace, once it has written that."""
        await until(lambda: written.is_file() and read(str(written)).endswith("\n"))
        pid = int(read(str(written)))
        await trio.Path(written).unlink()
        return pid

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        supervisor.start_soon(["workload"])
        inner = await find_workload()
        result["alone"] = [inner == supervisor.get("workload").pid, supervisor.get(SANDBOXD).state.value]
        await supervisor.halt("workload")
        bench.workloads.is_isolated = True
        supervisor.start_soon([SANDBOXD, "workload"])
        inner = await find_workload()
        outer = supervisor.get("workload").pid
        first = supervisor.get(SANDBOXD).pid
        result["pids"] = [
            inner < outer,
            bench.workloads.find_pid(inner) == outer,
            bench.workloads.find_pid(1) == first,
        ]
        result["parent"] = read(f"/proc/{outer}/status").partition("PPid:")[2].split()[0] == str(os.getpid())
        result["mount"] = [
            await trio.Path(mounted).exists(),
            await trio.Path(bench.workloads.find_path(str(mounted))).exists(),
        ]
        status = dict(line.split(":", 1) for line in read(f"/proc/{first}/status").splitlines())
        result["capabilities"] = int(status["CapEff"], 16) | int(status["CapBnd"], 16)
        result["title"] = read(f"/proc/{first}/cmdline").rstrip("\0")
        os.kill(first, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{outer}").exists())
        inner = await find_workload()
        result["again"] = [
            bench.workloads.find_pid(inner) == supervisor.get("workload").pid,
            supervisor.get(SANDBOXD).pid not in (0, first),
        ]
        outer = supervisor.get("workload").pid
        began = trio.current_time()
        await supervisor.halt(SANDBOXD)
        result["end"] = trio.current_time() - began
        await until(lambda: not Path(f"/proc/{outer}").exists())
        await supervisor.stop_all()
        async with bench.logs.read("workload") as chunks:
            result["log"] = b"".join([chunk async for chunk in chunks]).decode().splitlines()
        nursery.cancel_scope.cancel()
    return result


def no_sandbox(families: Iterable[int], paths: Paths) -> None:
    """The interpreter of a test lies elsewhere than a node's."""
    del families, paths


def run(scenario: Scenario) -> None:
    folder = tempfile.mkdtemp()
    Path(folder).chmod(0o755)
    Path(folder, "sample_daemon.py").write_text(DAEMON, encoding="utf-8")
    sys.path.insert(0, folder)
    pipes.FOLDER = Path(folder, "pipes")
    zygote_module.find_modules = lambda: ["sample_daemon"]
    zygote_module.make_private_view = lambda writable, sockets: None  # the test's own process needs no mounts
    zygote_module.enter_sandbox = no_sandbox
    kernel.set_child_subreaper()
    connection, pid = zygote_module.fork_zygote()
    result: dict[str, Any] = {}

    async def main(daemon: Daemon) -> None:
        with trio.fail_after(60):
            result.update(await scenario(Bench(daemon, connection, pid)))

    asyncio.run(host(main, "test", Log()))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    import trio.testing

    run(globals()[sys.argv[1]])
