"""A node whose every part is in memory, and a caller of its handlers."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, override

import pytest
import trio
from google.protobuf.message import Message
from tests.unit.machined.containerd.verify.verifier import run_verifier

from talos.api.rpc import Call, DuplexTransport, Handler
from talos.disks.reset import ResetPlan
from talos.machined.api.grpc_services import make_services
from talos.machined.containerd.verify.request import PROGRAM
from talos.machined.node.debug_containers import DebugContainers
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.ports.logs import Event, UnknownLogError
from talos.machined.node.ports.node import Node, Ports
from talos.machined.node.ports.power import NodeLock, RebootMode, SequenceLockedError
from talos.machined.node.ports.services import (
    ServiceEvent,
    ServiceHealth,
    ServiceRefusedError,
    ServiceState,
    ServiceStatus,
    UnknownServiceError,
)
from talos.machined.node.workloads import Workloads
from talos.machined.platform.platform import ContainerPlatform, MetalPlatform
from talos.machined.services.upgrade_lock import EtcdLock
from talos.resource.memory.state import MemoryState
from talos.rpc.port.remote import RemoteServer
from talos.system.cgroups import NoGroups, Usage
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.process import Finished
from talos.testing.mounts import MemoryMounts
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.grub.disk import SystemDisk
from talos.upgrade.slots.grub.slots import GrubSlots
from talos.upgrade.state import find_slot


class FakeServices:
    """Two services: apid is a daemon and may not be restarted, kubelet may be."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.statuses = {
            name: ServiceStatus(
                id=name,
                state=ServiceState.RUNNING,
                health=ServiceHealth(unknown=False, healthy=True, last_message="fine", last_change=12.5),
                events=(ServiceEvent(message="Started", state=ServiceState.RUNNING, time=10.0),),
                pid=pid,
                is_daemon=pid > 0,
                group=f"system/{name}" if pid else "",
            )
            for name, pid in (("apid", 47), ("kubelet", 0))
        }

    def list(self) -> Sequence[ServiceStatus]:
        return [*self.statuses.values()]

    def get(self, id: str) -> ServiceStatus:
        if id not in self.statuses:
            raise UnknownServiceError(id)
        return self.statuses[id]

    async def start(self, id: str) -> None:
        self._act("start", id)

    async def stop(self, id: str) -> None:
        self._act("stop", id)

    async def restart(self, id: str) -> None:
        self._act("restart", id)

    async def terminate(self, id: str) -> None:
        self.get(id)
        self.done.append(("terminate", id))

    async def halt(self, id: str) -> None:
        self._act("halt", id)

    def record(self, id: str, message: str) -> None:
        self._act(message, id)

    async def probe(self, ids: Iterable[str]) -> Mapping[str, str]:
        raise NotImplementedError

    def start_soon(self, ids: Iterable[str]) -> None:
        for name in ids:
            self._act("start", name)

    def _act(self, verb: str, id: str) -> None:
        self.get(id)
        if id == "apid":
            raise ServiceRefusedError(id)
        self.done.append((verb, id))


class FakeEvents:
    """A log of events whose followers get past ones, then wait."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.past: list[Event] = []

    def make_id(self) -> str:
        return "c" * 20

    def publish(self, payload: Message, *, actor_id: str = "") -> Event:
        number = len(self.past) + 1
        event = Event(id=f"{number - 1:020d}", number=number, time=1.0, actor_id=actor_id, payload=payload)
        self.past.append(event)
        return event

    def follow(self, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        self.options = options

        async def stream() -> AsyncGenerator[Event]:
            for event in self.past:
                yield event
            await trio.sleep_forever()

        @asynccontextmanager
        async def context() -> AsyncGenerator[AsyncIterator[Event]]:
            async with aclosing(stream()) as events:
                yield events

        return context()


class FakeLogs:
    """Logs by id, each a list of chunks."""

    def __init__(self) -> None:
        self.chunks: dict[str, list[bytes]] = {"apid": [b"one\n", b"two\nthree\n"], "kubelet": [b"k\n"]}
        self.options: dict[str, Any] = {}

    def ids(self) -> Sequence[str]:
        return list(self.chunks)

    def append(self, id: str, data: bytes) -> None:
        self.chunks.setdefault(id, []).append(data)

    def read(self, id: str, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.options = {"id": id, **options}

        @asynccontextmanager
        async def context() -> AsyncGenerator[AsyncIterator[bytes]]:
            if id not in self.chunks:
                raise UnknownLogError(id)
            async with aclosing(_stream(self.chunks[id], forever=options["follow"])) as chunks:
                yield chunks

        return context()


class FakeKernelLog:
    """Two lines."""

    def read(self, *, follow: bool = False, tail: bool = False) -> Any:
        @asynccontextmanager
        async def context() -> AsyncGenerator[AsyncIterator[bytes]]:
            lines = [] if tail else [b"kern: info: one\n", b"kern: info: two\n"]
            async with aclosing(_stream(lines, forever=follow)) as stream:
                yield stream

        return context()


async def _stream(chunks: Sequence[bytes], *, forever: bool) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk
    if forever:
        await trio.sleep_forever()


LOCKED_ACTOR = "7d1b4f0e-93d2-4b52-9d0c-0d5c0f9f7a21"
"""Whose sequence does not begin."""


class FakePower:
    """Runs nothing; remembers."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.plan = ResetPlan()
        self.locked = False
        self.lock: NodeLock | None = None
        self.stay: Callable[[], None] = lambda: None

    @property
    def is_locked(self) -> bool:
        return self.locked

    def reboot(
        self,
        *,
        mode: RebootMode = RebootMode.DEFAULT,
        is_upgrade: bool = False,
        lock: NodeLock | None = None,
    ) -> str:
        self.lock = lock
        return self._begin(f"reboot {mode.name}{' into another release' if is_upgrade else ''}")

    def shutdown(self, *, force: bool = False) -> str:
        return self._begin(f"shutdown {force}")

    def reset(self, plan: ResetPlan) -> str:
        self.plan = plan
        return self._begin("reset")

    def upgrade(
        self,
        install: Callable[[], Awaitable[None]],
        *,
        staged: bool,
        lock: NodeLock | None = None,
        stay: Callable[[], None] = lambda: None,
    ) -> str:
        del install
        self.lock, self.stay = lock, stay
        return self._begin(f"upgrade {staged}")

    def _begin(self, what: str) -> str:
        if self.locked:
            raise SequenceLockedError(LOCKED_ACTOR)
        self.begun.append(what)
        return "2f0c2f6e-6d32-4a4b-9d5f-3c1c1d3c0e5b"


class FakeProcesses:
    async def run(self, argv: Sequence[str], *, log: str = "") -> int:
        raise AssertionError(f"no handler runs programs: {argv} {log}")

    async def capture(self, argv: Sequence[str], stdin: bytes = b"") -> Finished:
        if argv == (PROGRAM,):
            return await run_verifier(argv, stdin)
        raise AssertionError(f"no handler runs programs: {argv} {stdin!r}")


@dataclass
class FakeTransport:
    """MethodProbe calls from a table and remembers their metadata."""

    replies: Mapping[str, Message]
    metadata: list[Mapping[str, Sequence[str]]] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)

    async def unary(
        self,
        method: str,
        request: Message,
        reply: type[Message],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - Transport's
    ) -> Any:
        self.metadata.append(metadata or {})
        self.methods.append(method)
        return reply.FromString(self.replies[method].SerializeToString())

    def stream(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not used")


class FakeGroups(NoGroups):
    """Every group uses the same."""

    @override
    def read_usage(self, path: str) -> Usage:
        return Usage(memory=1 << 20, cpu=5_000)


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the handlers of a node as the server would."""

    node: Node

    def with_node(self, **changes: Any) -> "Caller":
        return Caller(replace(self.node, **changes))

    def handler(self, method: str, service: str = "machine.MachineService") -> Handler:
        services = {found.descriptor.full_name: found for found in make_services(self.node)}
        return services[service].handlers[method]

    async def call(self, method: str, request: Message, service: str = "machine.MachineService") -> Any:
        """A unary call."""
        return await self.handler(method, service)(request, _make_call(method))

    async def read(self, method: str, request: Message, service: str = "machine.MachineService") -> list[Any]:
        """All frames of a stream that ends."""
        frames: list[Any] = []

        async def send(frame: Message) -> None:
            await trio.lowlevel.checkpoint()
            frames.append(frame)

        await self.handler(method, service)(request, _make_call(method), send)
        return frames

    async def read_first(self, method: str, request: Message, count: int) -> list[Any]:
        """The first frames of a stream without end, which is cancelled then."""
        frames: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def send(frame: Message) -> None:
                frames.append(frame)
                if len(frames) == count:
                    nursery.cancel_scope.cancel()
                await trio.lowlevel.checkpoint()

            await self.handler(method)(request, _make_call(method), send)
        return frames


def _make_call(method: str) -> Call:
    return Call(method=f"/machine.MachineService/{method}", metadata={}, deadline=inf, peer="unix:")


def _connect_to_nothing(path: str) -> AbstractAsyncContextManager[DuplexTransport]:
    raise AssertionError(f"no connection to {path} expected")


def _connect_to_no_node(server: RemoteServer) -> AbstractAsyncContextManager[DuplexTransport]:
    raise AssertionError(f"no connection to {server.host} expected")


def make_upgrader(cmdline: str = "", keys: Path = Path("/nonexistent")) -> Upgrades:
    """The upgrades of a machine without a disk."""

    async def list_checks() -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ()

    async def keep_logs(_: str) -> None:
        await trio.lowlevel.checkpoint()

    log = Log(write=lambda _: None)
    return Upgrades(
        state=MemoryState(),
        meta=MetaStore(),
        slots=GrubSlots(SystemDisk(MemoryState(), FakeProcesses().capture, MemoryMounts(), log), log),
        publish=lambda _: None,
        log=log,
        cmdline=cmdline,
        running=find_slot(cmdline),
        list_checks=list_checks,
        keep_logs=keep_logs,
        keys=keys,
    )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    state = MemoryState()
    return Node(
        state=state,
        services=FakeServices(),
        events=FakeEvents(),
        logs=FakeLogs(),
        kernel_log=FakeKernelLog(),
        platform=ContainerPlatform(arguments=parse_cmdline(""), handover=tmp_path),
        ports=Ports(files=KernelFiles(), groups=FakeGroups(), state_dir=state_dir, now=lambda: 1000.0),
        power=FakePower(),
        processes=FakeProcesses(),
        meta=MetaStore(),
        etcd=EtcdControl(),
        upgrades=make_upgrader(),
        upgrade_lock=EtcdLock(_connect_to_nothing, state),
        workloads=Workloads(),
        debug_containers=DebugContainers(),
        connect=_connect_to_nothing,
        connect_remote=_connect_to_no_node,
    )


@pytest.fixture
def caller(node: Node) -> Caller:
    return Caller(node)


@pytest.fixture
def make_transport() -> Callable[[Mapping[str, Message]], FakeTransport]:
    return FakeTransport


@pytest.fixture
def metal(caller: Caller) -> Caller:
    """The same node as a machine."""
    return caller.with_node(platform=MetalPlatform(arguments=parse_cmdline("")))
