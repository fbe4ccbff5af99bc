"""The controller: what the channel offers, which nodes lack it, and whether they may have it now."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from talos.api.rpc import RpcError, format_reason
from talos.fleet.calls import FleetCalls
from talos.fleet.engine import Fleet, UpgradeOptions
from talos.fleet.plan import FleetLimits, Plan, make_plan, parse_unavailable
from talos.fleet.progress import FleetProgress, NodeProgress, NodeStep
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade_controller import status as states
from talos.upgrade_controller.channel import ChannelRelease, read_channel
from talos.upgrade_controller.config import ClientAccess, Policy, Settings
from talos.upgrade_controller.hindrances import PAUSED, find_closed, find_reverted, find_unhealthy
from talos.upgrade_controller.policy_source import GoneError, PolicySource
from talos.upgrade_controller.selection import select_nodes
from talos.upgrade_controller.snapshots.config import Snapshots, open_destination
from talos.upgrade_controller.snapshots.destination import Destination
from talos.upgrade_controller.snapshots.schedule import Outcome, SnapshotSchedule
from talos.upgrade_controller.status import Status, read_texts

WRITE_INTERVAL = 1.0
"""Seconds between two writes of the status while nodes are under way, at least."""
CHECK_INTERVAL = 5.0
"""Seconds between two checks of the config while there is nothing else to do."""
RETRY_INTERVAL = 20.0
"""Seconds between two tries while something is wrong that may pass."""

type ReadChannel = Callable[[Settings], ChannelRelease]
type Connect = Callable[[ClientAccess], FleetCalls]


def find_release(settings: Settings) -> ChannelRelease:
    """What the policy's channel offers; UserError."""
    channel = settings.policy.channel
    assert channel is not None
    return read_channel(
        channel.image, settings.keys, endpoint=channel.endpoint, credentials=settings.credentials
    )


@dataclass(slots=True, kw_only=True)
class UpgradeController:
    """Follows one channel for one cluster. Who shares ``turn`` upgrades one after another."""

    place: PolicySource
    connect: Connect
    log: Log
    find_release: ReadChannel = find_release
    open_destination: Callable[[Snapshots], Destination] = open_destination
    report_snapshot: Callable[[Outcome], None] = lambda _: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    status: Status = field(default_factory=lambda: Status(state=states.WAITING))
    snapshots: SnapshotSchedule = field(init=False)
    _written: float = 0.0

    def __post_init__(self) -> None:
        self.snapshots = SnapshotSchedule(
            open=self.open_destination,
            now=self.now,
            log=self.log,
            show=self._write_snapshots,
            report=self.report_snapshot,
        )

    async def run(self) -> None:
        """Look at the channel again and again until cancelled or without a policy; snapshots meanwhile."""
        async with asyncio.TaskGroup() as group:
            snapshots = group.create_task(self._run_snapshots())
            await self._run_upgrades()
            snapshots.cancel()

    async def run_all_once(self) -> bool:
        """A snapshot when one is due, then one look at the channel; whether nothing is wrong."""
        return all([await self.snapshot_once(), await self.run_once()])

    async def _run_snapshots(self) -> None:
        while True:
            await self.snapshot_once()
            await asyncio.sleep(CHECK_INTERVAL)

    async def snapshot_once(self) -> bool:
        """A snapshot when one is due; whether nothing is wrong."""
        try:
            settings = self.place.load()
        except UserError:  # which the status shows already
            return False
        self._read()
        return await self.snapshots.follow(settings.snapshots, lambda: self.connect(settings.access))

    def _write_snapshots(self) -> None:
        # The rest is as it was: a release that is held back may not have been read yet.
        self.place.write({**self._read(), "snapshot": self.snapshots.status})

    async def _run_upgrades(self) -> None:
        while True:
            async with self.turn:
                await self.run_once()
            clock = asyncio.get_running_loop().time
            before, began = self._read_inputs(), clock()
            if before is None:
                return
            # What may begin now, or is written anew, is noticed at once, not after the interval.
            seconds = self._find_pause()
            while clock() - began < seconds and self._read_inputs() == before:  # noqa: ASYNC110 - a file
                await asyncio.sleep(min(CHECK_INTERVAL, seconds))

    async def run_once(self) -> bool:
        """One look, and an upgrade when there is something to do; whether nothing is wrong."""
        before = self._read()
        self.status = Status(
            state=states.WAITING,
            held=read_texts(before, "held"),
            begun=read_texts(before, "begun"),
            upgrade=states.as_object(before.get("upgrade")),
        )
        try:
            settings = self.place.load()
            if settings.policy.channel is None:
                self._show(state=states.IDLE)
                return True
            self.status = replace(self.status, image=settings.policy.channel.image)
            return await self._follow(settings)
        except GoneError:
            return False
        except (UserError, RpcError, OSError) as error:
            self._show(state=states.FAILED, reason=format_reason(error))
            return False

    def _read_inputs(self) -> object:
        """Changes with what is to be noticed at once; None when there is no policy any more."""
        try:
            settings = self.place.load()
        except GoneError:
            return None
        except UserError as error:
            return str(error)
        return settings, find_closed(settings, self.now()), read_texts(self._read(), "held")

    def _find_pause(self) -> float:
        """Seconds until the next check, without a change."""
        try:
            settings = self.place.load()
        except UserError:
            return RETRY_INTERVAL
        seconds = settings.policy.interval.seconds
        at_rest = (states.CURRENT, states.HELD, states.IDLE)
        if self.status.state in at_rest or find_closed(settings, self.now()):
            return seconds
        return min(seconds, RETRY_INTERVAL)

    def _read(self) -> dict[str, Any]:
        try:
            document = self.place.read()
        except UserError as error:
            self.log.once(str(error), key="status")
            return {}
        if not self.snapshots.status:
            self.snapshots.status = read_texts(document, "snapshot")
        return document

    def _find_closed(self) -> str:
        """By the policy as it is now, which is in force for what begins next."""
        try:
            settings = self.place.load()
        except UserError as error:
            return str(error)
        return find_closed(settings, self.now())

    async def _follow(self, settings: Settings) -> bool:
        policy = settings.policy
        release = await asyncio.to_thread(self.find_release, settings)
        version = release.manifest.version
        shown = {"version": version, "commit": release.manifest.commit, "image": release.image}
        self.status = replace(self.status, release=shown)
        calls = self.connect(settings.access)
        nodes = await select_nodes(calls, policy.nodes)
        if not nodes:
            hint = "discovery has to be on, and what selects nodes to fit one of them"
            raise UserError("no member of the cluster is selected", where="nodes", hint=hint)
        plan = await make_plan(calls, nodes, version=version)
        self._note_nodes(
            [
                {"node": entry.node, "hostname": entry.hostname, "version": entry.version}
                for entry in plan.nodes
            ]
        )
        behind = [entry.name for entry in plan.nodes if entry.version != version]
        if not behind:
            self.status = replace(self.status, begun={})
            self._show(state=states.CURRENT)
            return True
        if self.status.held.get("digest") == release.digest:
            self._show(state=states.HELD, reason=self.status.held.get("reason", ""))
            return False
        # Who began with it was ended meanwhile, for example with the node that it ran on.
        was_begun = self.status.begun.get("digest") == release.digest
        if was_begun and (reverted := find_reverted(plan, version)):
            return self._hold(release, reverted)
        self.status = replace(self.status, held={})
        closed = self._find_closed()
        if not closed and not policy.allow_unhealthy:
            closed = find_unhealthy(plan)
        if closed:
            self._show_closed(closed, behind)
            return True
        fleet = self._make_fleet(calls, plan, policy, release)
        self.status = replace(self.status, begun={"digest": release.digest, "version": version})
        self._show(state=states.UPGRADING, reason=f"to {version}: {', '.join(behind)}")
        return self._record_outcome(await fleet.run(), release)

    def _make_fleet(self, calls: FleetCalls, plan: Plan, policy: Policy, release: ChannelRelease) -> Fleet:
        limits = FleetLimits(
            parallel=policy.parallel,
            unavailable=parse_unavailable(policy.max_unavailable or str(policy.parallel), len(plan.workers)),
        )
        options = UpgradeOptions(
            image=release.image,
            version=release.manifest.version,
            timeout=policy.timeout.seconds,
            gate=self._find_closed,
        )
        return Fleet(calls=calls, plan=plan, options=options, limits=limits, watcher=self)

    def _record_outcome(self, progress: FleetProgress, release: ChannelRelease) -> bool:
        self.status = replace(self.status, begun={}, upgrade=progress.document())
        self._note_rows(progress.rows)
        if progress.has_succeeded:
            self._show(state=states.CURRENT)
            return True
        failed = [row for row in progress.rows if row.step is NodeStep.FAILED]
        if any(not row.is_untouched for row in failed):
            return self._hold(release, progress.reason)
        if failed:  # a registry that is down, a member of etcd: nothing that the release is to blame for
            self._show(state=states.FAILED, reason=progress.reason)
            return False
        self._show_closed(
            progress.reason, [row.name for row in progress.rows if row.step is not NodeStep.DONE]
        )
        return True

    def _hold(self, release: ChannelRelease, reason: str) -> bool:
        held = {"digest": release.digest, "version": release.manifest.version, "reason": reason}
        self.status = replace(self.status, begun={}, held=held)
        self._show(state=states.HELD, reason=reason)
        return False

    def changed(self, row: NodeProgress) -> None:
        """A node's step is another."""
        self.log.once(f"{row.name}: {row.step.value}", key=row.node, level="info")
        self._note_rows([row])
        since = asyncio.get_running_loop().time() - self._written
        if row.step in (NodeStep.DONE, NodeStep.FAILED) or since > WRITE_INTERVAL:
            self._write()

    def _note_nodes(self, nodes: list[dict[str, Any]]) -> None:
        self.status = replace(self.status, nodes=nodes)

    def _note_rows(self, rows: Sequence[NodeProgress]) -> None:
        steps: Mapping[str, NodeProgress] = {row.node: row for row in rows}
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
        self._written = asyncio.get_running_loop().time()
        self.place.write({**self.status.document(), "snapshot": self.snapshots.status})
