"""What a boot finds out and decides of an upgrade: whether it is a trial, and the verdict.

The state is in META (:mod:`talos.upgrade.state`), the choice of what boots with the slots. Each step writes
META before that choice, so that a power cut between the two leaves a boot into the old slot, and a state that
shows it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import Code as CommonCode
from talos.api.common.common_pb2 import Error as CommonError
from talos.api.machine import machine_pb2 as pb
from talos.system.block.meta import MetaFullError
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.version import get_version
from talos.upgrade.boot_end import BootEnd, explain_end
from talos.upgrade.release.manifest import is_older
from talos.upgrade.slots.port import SlotChoice, Slots, SlotState
from talos.upgrade.state import (
    ANNOUNCE_TAG,
    IDLE,
    LABEL_TAG,
    PENDING,
    STATE_TAG,
    TRIAL_ARGUMENT,
    Phase,
    Upgrade,
    bless,
    find_default,
    format_state,
    give_up,
    parse_state,
    revert,
    start,
)

SELF_CHECK = "selfCheck"
"""The phase, in events, of a system on trial."""


class Meta(Protocol):
    """META. Changes raise UserError, MetaFullError when there is no room, OSError."""

    @property
    def values(self) -> Mapping[int, bytes]:
        """Those that are there."""
        ...

    async def get(self, key: int) -> bytes | None:
        """A value, None when there is none."""
        ...

    async def set(self, key: int, value: bytes, *, reserved: Mapping[int, int] | None = None) -> None:
        """Write a value; then it is on the disk."""
        ...

    async def delete(self, key: int) -> bool:
        """Remove a value; False when there is none."""
        ...


@dataclass(slots=True, kw_only=True)
class NodeUpgrade:
    """The upgrade that a node is in, as this boot has it."""

    meta: Meta
    slots: Slots
    publish: Callable[[Message], object]
    log: Log
    cmdline: str
    running: str
    """The slot that runs; empty where no slot was booted."""
    keep_logs: Callable[[str], Awaitable[None]]
    """Keeps those of this boot, which is given up for the reason."""
    current: Upgrade = IDLE
    cause: str = ""
    """Why the boot before this one failed, as far as it left that."""
    at_start: Upgrade | None = None
    """What this boot is; None until META is read."""
    writing: trio.Lock = field(default_factory=trio.Lock)
    """Held by what writes slots or META."""
    is_repeated: bool = False
    """Whether early init has counted a start before this one that was not confirmed."""
    is_preparing: bool = False
    """Whether an upgrade waits for the config's trial checks, before anything is written."""
    _listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    @property
    def has_begun(self) -> bool:
        """Whether META is read, and with it known what this boot is."""
        return self.at_start is not None

    @property
    def is_over(self) -> bool:
        """Whether the trial of this boot was reverted: what is left is the reboot into the other slot."""
        was_trial = self.at_start is not None and self.at_start.phase is Phase.TRIAL
        return was_trial and self.current.phase is Phase.REVERTED and self.current.slot == self.running

    @property
    def is_guarded(self) -> bool:
        """Whether a watchdog was armed: for a system on trial, or one whose last start was not confirmed."""
        return self.is_repeated or parse_cmdline(self.cmdline).is_on(TRIAL_ARGUMENT)

    @property
    def needs_probes(self) -> bool:
        """Whether the config's trial checks are probed now."""
        return self.is_preparing or self.current.phase is Phase.TRIAL

    @property
    def fallback(self) -> str:
        """That another system than the default was started; empty when it was that."""
        state, default = self.current, find_default(self.current)
        if not (self.running and default):
            return ""
        if self.running != default:
            return (
                f"slot {default} is the default, but slot {self.running} was started: an upgrade repairs it"
            )
        # A disk that was missing from a mirror while the others were upgraded has the slots of before.
        version = state.version if default == state.slot else state.previous_version
        tag = get_version().tag
        if version in ("", tag):
            return ""
        text = f"slot {default} holds {version}, but {tag} was started: one disk of the mirror is out of date"
        return f"{text} (restart when its array is ready)"

    def listen(self, listener: Callable[[], None]) -> None:
        """A callback after every change."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    async def begin(self, last: BootEnd | None) -> bool:
        """Once META is read: find out whether this boot is a trial, or, which is True, the end of one."""
        try:
            before = parse_state(await self.meta.get(STATE_TAG))
        except ValueError as error:
            self.log.warning("META's record of the last upgrade is unusable and dropped", reason=str(error))
            before = IDLE
            with self._logging_failures():
                await self.meta.delete(STATE_TAG)
        cause = await self._find_failure(before) or explain_end(last, before.phase)
        after = start(before, running=self.running, cause=cause)
        self.current, self.cause = before, last.cause if last else ""
        is_news = after != before
        if is_news:
            with self._logging_failures():
                await self.set(after)
            self.current = after
        if after.phase is Phase.TRIAL:
            self.log.info(f"{after.version} in slot {after.slot} is on trial until its self-check is done")
            self.publish(pb.PhaseEvent(phase=SELF_CHECK, action=pb.PhaseEvent.START))
        elif after.phase is Phase.REVERTED:
            with self._logging_failures():
                is_news |= await self.meta.delete(ANNOUNCE_TAG)
            if is_news:
                self.announce(after)
        if self.fallback:
            self.log.error(self.fallback)
        self.at_start = after
        self._notify()
        return after != before and after.phase is Phase.REVERTED

    @contextmanager
    def _logging_failures(self) -> Generator[None]:
        """A META that takes nothing does not end a boot: the next one finds what this one found."""
        try:
            yield
        except (UserError, OSError) as error:
            self.log.warning("the state of the upgrade can't be kept in META", reason=str(error))

    async def _find_failure(self, before: Upgrade) -> str:
        """Why what was staged was not started, as far as its slots show that."""
        if before.phase is not Phase.STAGED or self.running != before.previous:
            return ""
        try:
            return (await self.slots.read()).failure
        except (UserError, OSError):
            return ""  # what is wrong with the slots is reported when they are used

    def announce(self, state: Upgrade) -> None:
        """Show that an upgrade was reverted."""
        self.log.error(f"the upgrade to {state.version} was reverted", reason=state.reason)
        event = pb.SequenceEvent(sequence="upgrade", action=pb.SequenceEvent.NOOP)
        event.error.CopyFrom(CommonError(code=CommonCode.FATAL, message=f"reverted: {state.reason}"))
        self.publish(event)

    async def confirm(self) -> None:
        """This system has come up: its starts are counted anew. UserError, OSError.

        A default that does not come up any more is given up. META is written first and the count last: after
        a power cut between them the same slot is started, and goes on here. What has no verdict yet is left
        alone: a trial is confirmed by its own, and what is booted next has a new count already.
        """
        async with self._writing():
            if self.current.phase in PENDING:
                return
            found = await self.read_slots()
            default = found.default
            if found.failed_starts and default != self.running:
                await self._give_up(found)
                default = self.running
            await self.slots.make_default(default)
            await self.slots.revoke(default)

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[None]:
        """One verdict at a time, such as the self-check's and that of a person."""
        async with self.writing:
            with trio.CancelScope(shield=True):  # a caller who leaves has all of it or nothing
                yield

    async def _give_up(self, found: SlotState) -> None:
        state, default = self.current, found.default
        if (state.phase, state.slot, state.previous) == (Phase.REVERTED, default, self.running):
            return
        cause = self.cause or "it left no reason"
        given_up = give_up(
            state,
            running=self.running,
            version=found.versions.get(default, "unknown"),
            running_version=get_version().tag,
            reason=f"slot {default} did not come up in {found.failed_starts} starts: {cause}",
        )
        try:
            await self.set(given_up)
        except MetaFullError as error:
            # What fills it must not keep the slot that works from being the default.
            self.log.warning("META has no room for the reason", reason=str(error))
            self.current = given_up
        self.announce(given_up)

    async def read_slots(self) -> SlotState:
        """The slots; their choice is written anew where it is lost, with the default it had."""
        state = self.current
        known = {state.slot: state.version, state.previous: state.previous_version}
        default = state.previous if state.phase is Phase.TRIAL else find_default(state) or self.running
        versions = known | {self.running: get_version().tag}
        return await self.slots.read(SlotChoice(versions=versions, default=default))

    async def bless(self) -> None:
        """Make the system on trial the default. UserError, OSError; then it is still on trial."""
        async with self._writing():
            state = self.current
            if state.phase is not Phase.TRIAL:
                return
            await self.read_slots()
            with_loader = not is_older(state.version, state.previous_version)
            await self.slots.make_default(state.slot, with_loader=with_loader)
            await self.set(bless(state))
            await self.slots.revoke(state.slot)
        self.publish(pb.PhaseEvent(phase=SELF_CHECK, action=pb.PhaseEvent.STOP))
        self.log.info(f"{self.current.version} in slot {self.current.slot} is the default from now on")

    async def revert(self, reason: str) -> None:
        """End the trial, unless it has its verdict. UserError, OSError.

        The next boot is the old slot's, even after a power cut within :meth:`bless`.
        """
        async with self._writing():
            if self.current.phase is not Phase.TRIAL:
                return
            if (await self.read_slots()).default != self.current.previous:
                await self.slots.make_default(self.current.previous)
            await self.meta.set(ANNOUNCE_TAG, b"1")
            await self.set(revert(self.current, reason))
        self.announce(self.current)
        await self.keep_logs(reason)

    async def settle_keys(self) -> bool:
        """Have volumes keep the keys that this system needs; False while an upgrade has no verdict.

        Not beside what writes a system: that adds keys before it is staged. UserError, OSError.
        """
        async with self._writing():
            if not self.has_begun or self.current.phase in PENDING or self.is_over:
                return False
            await self.slots.settle_keys()
            return True

    async def set(self, state: Upgrade) -> None:
        """Have META keep a state, and notify of it. UserError, OSError."""
        await self.meta.set(STATE_TAG, format_state(state))
        if state.phase in PENDING:
            if await self.meta.get(LABEL_TAG) != state.previous.encode():
                await self.meta.set(LABEL_TAG, state.previous.encode())
        else:
            await self.meta.delete(LABEL_TAG)
        self.current = state
        self._notify()
