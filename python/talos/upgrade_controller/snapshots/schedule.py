"""When a snapshot is due, and how the last one went."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from talos.api.rpc import RpcError, format_reason
from talos.fleet.calls import FleetCalls
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.sizes import format_pretty_size
from talos.upgrade_controller.snapshots.config import Snapshots
from talos.upgrade_controller.snapshots.destination import Destination, make_name, remove_old
from talos.upgrade_controller.snapshots.take import find_members, take_snapshot

MIN_RETRY_INTERVAL, MAX_RETRY_INTERVAL = timedelta(minutes=1), timedelta(hours=1)
"""Between two tries: after the first failure, and after many."""
CURRENT, RUNNING, FAILED = "current", "running", "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one try: the snapshot that was taken, or why none was."""

    is_taken: bool
    message: str


@dataclass(slots=True, kw_only=True)
class SnapshotSchedule:
    """The snapshots of one cluster. ``status`` is shown; its ``time`` is that of the last good one.

    ``report`` gets what became of each try.
    """

    open: Callable[[Snapshots], Destination]
    now: Callable[[], datetime]
    log: Log
    show: Callable[[], None]
    report: Callable[[Outcome], None] = lambda _: None
    status: dict[str, str] = field(default_factory=dict[str, str])
    _failures: int = 0
    _tried: Snapshots | None = None
    _retry: datetime | None = None

    async def follow(self, wanted: Snapshots | None, connect: Callable[[], FleetCalls]) -> bool:
        """Take a snapshot when one is due; whether nothing is wrong."""
        if wanted is None:
            if self.status:
                self.status = {}
                self.show()
            return True
        if not self._is_due(wanted):
            return self.status["state"] != FAILED
        self._note(state=RUNNING)
        if wanted != self._tried:
            self._tried, self._failures = wanted, 0
        try:
            await self._take(wanted, connect())
        except (UserError, RpcError, OSError) as error:
            self._failures += 1
            longest = min(timedelta(seconds=wanted.section.interval.seconds), MAX_RETRY_INTERVAL)
            retry = self.now() + min(MIN_RETRY_INTERVAL * 2 ** min(self._failures - 1, 10), longest)
            self._retry = retry
            self._note(state=FAILED, reason=_explain(error, wanted), next=_format(retry))
            self.log.once(f"snapshot: {self.status['reason']}", key="snapshot", level="error")
            self.report(Outcome(is_taken=False, message=self.status["reason"]))
            return False
        self._failures, self._retry = 0, None
        return self.status["state"] == CURRENT

    def _is_due(self, wanted: Snapshots) -> bool:
        if self._retry and wanted == self._tried:
            return self.now() >= self._retry
        last = parse_time(self.status.get("time", ""))
        # A time that is to come is of a clock that was wrong.
        interval = timedelta(seconds=wanted.section.interval.seconds)
        return last is None or not last <= self.now() < last + interval

    async def _take(self, wanted: Snapshots, calls: FleetCalls) -> None:
        section, begun = wanted.section, self.now()
        destination = await asyncio.to_thread(self.open, wanted)
        members = await find_members(calls)
        member = members[self._failures % len(members)]
        name = make_name(begun)
        size = await take_snapshot(
            calls, member, destination, section.recipients, name, limit=section.timeout.seconds
        )
        following = begun + timedelta(seconds=section.interval.seconds)
        self._note(
            state=CURRENT,
            reason="; ".join(member.errors),
            time=_format(begun),
            name=name,
            node=member.hostname,
            size=format_pretty_size(size),
            next=_format(following),
        )
        self.log.once(f"snapshot: {name} of {member.hostname}", key="snapshot", level="info")
        self.report(Outcome(is_taken=True, message=f"{name} of {member.hostname}, {self.status['size']}"))
        try:
            await asyncio.to_thread(remove_old, destination, section.keep)
        except UserError as error:  # no reason to take another one
            self._note(state=FAILED, reason=f"old snapshots stay: {_explain(error, wanted)}")
            self.log.once(f"snapshot: {self.status['reason']}", key="old snapshots", level="error")

    def _note(self, *, reason: str = "", **more: str) -> None:
        keys = ("state", "reason", "time", "name", "node", "size", "next")
        self.status = {**dict.fromkeys(keys, ""), **self.status, "reason": reason, **more}
        self.show()


def _explain(error: Exception, wanted: Snapshots) -> str:
    match error:
        case RpcError() | UserError():
            return format_reason(error)
        case _:
            return f"{wanted.where}: {error}"


def _format(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")


def parse_time(text: str) -> datetime | None:
    """A time of the status, if there is one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
