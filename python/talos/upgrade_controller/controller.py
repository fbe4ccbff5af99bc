"""The controller: what the channel offers, which nodes lack it, and whether they may have it now."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.rpc import RpcError
from talos.daemon.health import find_address, is_control_plane
from talos.fleet.calls import FleetCalls
from talos.fleet.engine import Fleet, Order
from talos.fleet.plan import Limits, Plan, make_plan, parse_unavailable
from talos.fleet.progress import Progress, Row, Step
from talos.resource import kinds
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade_controller import status as states
from talos.upgrade_controller.channel import ChannelRelease, read_channel
from talos.upgrade_controller.config import NodesSection, Settings, load_settings
from talos.upgrade_controller.status import Status, read_held, read_status, write_status

WRITE_INTERVAL = 1.0
"""Seconds between two writes of the status while nodes are under way, at least."""
CHECK_INTERVAL = 5.0
"""Seconds between two looks at the config while there is nothing else to do."""
CLOSED, PAUSED = "the maintenance window is closed", "paused"

type ReadChannel = Callable[[Settings], ChannelRelease]
type Connect = Callable[[Settings], FleetCalls]


def find_release(settings: Settings) -> ChannelRelease:
    """What the config's channel offers; UserError."""
    channel = settings.config.channel
    return read_channel(channel.image, settings.keys, endpoint=channel.endpoint)


def find_closed(settings: Settings, now: datetime) -> str:
    """Why no node may begin now, empty when one may."""
    if settings.config.paused:
        return PAUSED
    if settings.windows and not any(window.is_open(now) for window in settings.windows):
        return CLOSED
    return ""


def find_unwell(plan: Plan) -> str:
    """Which nodes are not well, and why: nobody looks on, so an upgrade does not begin then."""
    found = [
        f"{look.name} is not well: {'; '.join(plan.problems[look.node].values())}"
        for look in plan.nodes
        if plan.problems.get(look.node)
    ]
    return ", ".join(found)


def choose_nodes(members: Sequence[MemberSpec], chosen: NodesSection) -> list[str]:
    """The addresses of the members that are selected, ordered by hostname."""
    found: list[str] = []
    for member in sorted(members, key=lambda one: one.hostname):
        name, role = member.hostname, "controlplane" if is_control_plane(member) else "worker"
        is_named = any(fnmatchcase(name, pattern) for pattern in chosen.hostnames)
        if (
            (address := find_address(member))
            and role in chosen.roles
            and is_named
            and not any(fnmatchcase(name, pattern) for pattern in chosen.exclude)
        ):
            found.append(address)
    return found


@dataclass(slots=True, kw_only=True)
class UpgradeController:
    """Follows one channel for one cluster."""

    path: Path
    connect: Connect
    log: Log
    find_release: ReadChannel = find_release
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    status: Status = field(default_factory=lambda: Status(state=states.WAITING))
    _settings: Settings | None = None
    _written: float = 0.0

    async def run(self) -> None:
        """Look at the channel again and again, until cancelled."""
        while True:
            await self.run_once()
            began = time.monotonic()
            seconds = self._settings.config.interval.seconds if self._settings else CHECK_INTERVAL
            closed = self._find_closed()
            # A switch or a window that opens is noticed at once, not after the interval.
            while time.monotonic() - began < seconds and self._find_closed() == closed:  # noqa: ASYNC110 - a file
                await asyncio.sleep(min(CHECK_INTERVAL, seconds))

    async def run_once(self) -> bool:
        """One look, and an upgrade when there is something to do; whether nothing is wrong."""
        try:
            settings = self._settings = load_settings(self.path)
        except UserError as error:
            self._settings = None
            self.log.once(str(error), key="config", level="error")
            return False
        before = self._read(settings)
        self.status = Status(
            state=states.WAITING,
            image=settings.config.channel.image,
            held=read_held(before),
            upgrade=states.as_object(before.get("upgrade")),
        )
        try:
            return await self._follow(settings)
        except (UserError, RpcError, OSError) as error:
            reason = error.message if isinstance(error, RpcError) else str(error)
            self._show(state=states.FAILED, reason=reason)
            return False

    def _read(self, settings: Settings) -> dict[str, Any]:
        try:
            return read_status(settings.status)
        except UserError as error:
            self.log.once(str(error), key="status")
            return {}

    def _find_closed(self) -> str:
        """As the file is now: what begins next obeys it at once."""
        try:
            settings = load_settings(self.path)
        except UserError as error:
            return str(error)
        return find_closed(settings, self.now())

    async def _follow(self, settings: Settings) -> bool:
        config = settings.config
        release = await asyncio.to_thread(self.find_release, settings)
        version = release.manifest.version
        shown = {"version": version, "commit": release.manifest.commit, "image": release.image}
        self.status = replace(self.status, release=shown)
        calls = self.connect(settings)
        nodes = choose_nodes(await calls.specs("", kinds.MEMBER), config.nodes)
        if not nodes:
            hint = "discovery has to be on, and the pattern to match"
            raise UserError("no member of the cluster is selected", where="nodes", hint=hint)
        plan = await make_plan(calls, nodes, version=version)
        self._note_nodes(
            [{"node": look.node, "hostname": look.hostname, "version": look.version} for look in plan.nodes]
        )
        behind = [look.name for look in plan.nodes if look.version != version]
        if not behind:
            self._show(state=states.CURRENT)
            return True
        if self.status.held.get("digest") == release.digest:
            self._show(state=states.HELD, reason=self.status.held.get("reason", ""))
            return False
        self.status = replace(self.status, held={})
        closed = self._find_closed()
        if not closed and not config.allow_unwell:
            closed = find_unwell(plan)
        if closed:
            self._show_closed(closed, behind)
            return True
        limits = Limits(
            parallel=config.parallel,
            unavailable=parse_unavailable(config.max_unavailable or str(config.parallel), len(plan.workers)),
        )
        order = Order(
            image=release.image,
            version=version,
            timeout=config.timeout.seconds,
            gate=self._find_closed,
        )
        fleet = Fleet(calls=calls, plan=plan, order=order, limits=limits, watcher=self)
        self._show(state=states.UPGRADING, reason=f"to {version}: {', '.join(behind)}")
        return self._judge(await fleet.run(), release)

    def _judge(self, progress: Progress, release: ChannelRelease) -> bool:
        self.status = replace(self.status, upgrade=progress.document())
        self._note_rows(progress.rows)
        if progress.has_succeeded:
            self._show(state=states.CURRENT)
            return True
        if any(row.step is Step.FAILED for row in progress.rows):
            held = {"digest": release.digest, "version": release.manifest.version, "reason": progress.reason}
            self.status = replace(self.status, held=held)
            self._show(state=states.HELD, reason=progress.reason)
            return False
        self._show_closed(progress.reason, [row.name for row in progress.rows if row.step is not Step.DONE])
        return True

    def changed(self, row: Row) -> None:
        """A node's step is another."""
        self.log.once(f"{row.name}: {row.step.value}", key=row.node, level="info")
        self._note_rows([row])
        if row.step in (Step.DONE, Step.FAILED) or time.monotonic() - self._written > WRITE_INTERVAL:
            self._write()

    def _note_nodes(self, nodes: list[dict[str, Any]]) -> None:
        self.status = replace(self.status, nodes=nodes)

    def _note_rows(self, rows: Sequence[Row]) -> None:
        steps: Mapping[str, Row] = {row.node: row for row in rows}
        self._note_nodes(
            [
                node
                | (
                    {"version": row.after or row.before, "step": row.step.value, "detail": row.detail}
                    if (row := steps.get(node["node"]))
                    else {}
                )
                for node in self.status.nodes
            ]
        )

    def _show_closed(self, reason: str, behind: Sequence[str]) -> None:
        state = states.PAUSED if reason == PAUSED else states.WAITING
        self._show(state=state, reason=f"{reason}; {', '.join(behind)} would be upgraded")

    def _show(self, *, state: str, reason: str = "") -> None:
        self.status = replace(self.status, state=state, reason=reason)
        is_wrong = state in (states.FAILED, states.HELD)
        text = f"{state}: {reason}" if reason else state
        self.log.once(text, key="state", level="error" if is_wrong else "info")
        self._write()

    def _write(self) -> None:
        if self._settings is not None:
            self._written = time.monotonic()
            write_status(self._settings.status, self.status.document())
