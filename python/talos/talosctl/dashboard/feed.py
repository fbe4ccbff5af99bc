"""What one node reports, as it changes: its resources by watches, its counters by polling."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.cosi.state_pb2 import EventType
from talos.api.machine.machine_pb2 import CPUInfoResponse, CPUsInfo
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.client.failure import describe
from talos.client.resources import watch
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.resource import kinds
from talos.resource.ids import Singleton
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.talosctl.client.command import parts
from talos.talosctl.dashboard.figures import Figures, Sample, make_figures, take_sample

RETRY = 3.0
"""Seconds before a node that failed is called again."""
HISTORY = 120
"""Figures that charts show."""
WATCHED: tuple[Kind[Message], ...] = (
    kinds.DIAGNOSTIC,
    kinds.HOSTNAME_STATUS,
    kinds.INFO,
    kinds.LINK_STATUS,
    kinds.MACHINE_STATUS,
    kinds.MACHINE_TYPE,
    kinds.MEMBER,
    kinds.NETWORK_STATUS,
    kinds.NODE_ADDRESS,
    kinds.NODE_STATUS,
    kinds.RESOLVER_STATUS,
    kinds.ROUTE_STATUS,
    kinds.SECURITY_STATE,
    kinds.SERVICE,
    kinds.SIDEROLINK_STATUS,
    kinds.STATIC_POD_STATUS,
    kinds.SYSTEM_INFORMATION,
    kinds.TIME_SERVER_STATUS,
    kinds.TIME_STATUS,
    kinds.VERSION,
)
MAX_RESOURCES = 65_536
"""Of a type; what a node has beyond is not shown."""
_SIGNS = frozenset({EventType.CREATED, EventType.UPDATED})
_MISSING = frozenset({Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED, Code.INVALID_ARGUMENT})
"""What a node of another version, or a caller with few roles, gets: the rest can still be shown."""


@dataclass(slots=True, kw_only=True)
class NodeView:
    """What is known of a node; ``error`` is why there is nothing new, and empty when there is."""

    node: str
    error: str = "connecting…"
    processors: CPUsInfo = field(default_factory=CPUsInfo)
    history: list[Figures] = field(default_factory=list[Figures])
    """The newest last."""
    boot_time: int = 0
    """Seconds since the epoch."""
    specs: dict[str, dict[str, Message]] = field(default_factory=dict[str, dict[str, Message]])
    """Of each type, by id."""

    def all[S: Message](self, kind: Kind[S]) -> dict[str, S]:
        """The specs of a kind by id, in the order of the ids."""
        found = self.specs.get(kind.type, {})
        return {name: spec for name in sorted(found) if isinstance(spec := found[name], kind.spec)}

    def one[S: Message](self, resource: Singleton[S]) -> S | None:
        """One spec, if the node has it."""
        kind, name = resource
        return self.all(kind).get(name)


class NodeFeed:
    """Keeps a NodeView up to date until it is cancelled."""

    def __init__(self, target: Target, view: NodeView, interval: float, changed: Callable[[], None]) -> None:
        self.view = view
        self._target = target
        self._interval = interval
        self._changed = changed

    async def run(self) -> None:
        """Connect, follow, and begin again after a failure."""
        while True:
            try:
                async with open_session(self._target) as session, asyncio.TaskGroup() as group:
                    for kind in WATCHED:
                        group.create_task(self._follow(session, kind))
                    group.create_task(self._measure(session))
            except* (RpcError, UserError) as failures:
                self.view.error = describe(_first(failures), self._target)
                self._changed()
            await asyncio.sleep(RETRY)

    async def _follow(self, session: Session, kind: Kind[Message]) -> None:
        found: dict[str, Message] = {}
        try:
            async with watch(session, self.view.node, kind.namespace, kind.type, "") as replies:
                async for reply in replies:
                    for event in reply.event:
                        name = event.resource.metadata.id
                        if event.event_type in _SIGNS and (name in found or len(found) < MAX_RESOURCES):
                            found[name] = parse_spec(kind.spec, event.resource)
                        elif event.event_type == EventType.DESTROYED:
                            found.pop(name, None)
                        # What was there before the connection broke is shown until all of it is known anew.
                        elif event.event_type == EventType.BOOTSTRAPPED:
                            self.view.specs[kind.type] = found
                        elif event.event_type == EventType.ERRORED:
                            self.view.error = event.error
                    self._changed()
        except RpcError as error:
            if error.code not in _MISSING:
                raise
            self.view.specs.pop(kind.type, None)

    async def _measure(self, session: Session) -> None:
        reply = await session.unary(
            self.view.node, "/machine.MachineService/CPUInfo", Empty(), CPUInfoResponse
        )
        self.view.processors = next(iter(parts(reply, CPUsInfo)), CPUsInfo())
        before: Sample | None = None
        while True:
            sample = await take_sample(session, self.view.node)
            self.view.history.append(make_figures(before, sample))
            del self.view.history[:-HISTORY]
            self.view.boot_time = sample.system.boot_time
            self.view.error = ""
            self._changed()
            before = sample
            await asyncio.sleep(self._interval)


def _first(group: BaseExceptionGroup[RpcError | UserError]) -> RpcError | UserError:
    """One failure of a group: when a connection breaks, all calls on it fail for the same reason."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
