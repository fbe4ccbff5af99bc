"""What this machine does with releases: writes them, tries them, keeps them or goes back.

The state is in META (:mod:`talos.upgrade.state`), the choice of what boots with the slots. Each step writes
META before that choice, so that a power cut between the two leaves a boot into the old slot, and a state that
shows it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import Code as CommonCode
from talos.api.common.common_pb2 import Error as CommonError
from talos.api.machine import machine_pb2 as pb
from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.config_store import load_config
from talos.machined.node.meta_store import MetaFullError, MetaStore
from talos.machined.upgrade.image import Release
from talos.machined.upgrade.slots import Report, Slots, SlotState, drop
from talos.resource import ids, kinds
from talos.resource.state import NotFoundError, State
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.version import get_version
from talos.upgrade.release.features import find_used
from talos.upgrade.release.manifest import check_commit_time, check_release, is_older
from talos.upgrade.release.signature import KEYS
from talos.upgrade.slots.grub.environment import ATTEMPTS, MAX_COUNT
from talos.upgrade.state import (
    ANNOUNCE_TAG,
    BUSY,
    IDLE,
    LABEL_TAG,
    PENDING,
    STATE_TAG,
    TRIAL_ARGUMENT,
    Phase,
    Upgrade,
    bless,
    find_default,
    find_slot,
    format_state,
    give_up,
    other_slot,
    parse_state,
    revert,
    stage,
    start,
)

SELF_CHECK = "selfCheck"
"""The phase, in events, of a system on trial."""
BY_HAND = "rolled back by hand"
LOADER_FAILED = "its boot loader did not come up; an upgrade to it keeps the present one from now on"
NETWORK = "network"
"""Among the checks: addresses and connectivity."""

type Installer = Callable[[Report], Awaitable[None]]
"""Writes a release and reports its steps; UserError, OSError."""


async def is_network_ready(state: State) -> bool:
    """Whether there are addresses and connectivity."""
    try:
        status = (await state.get(*ids.NETWORK_STATUS)).spec
    except NotFoundError:
        return False
    return status.address_ready and status.connectivity_ready


def explain(last: LastBoot | None, phase: Phase) -> str:
    """Why a system booted once is gone, by what its boot left; None where nothing could be."""
    if last is None:
        return "it left no reason"
    if last.cause:
        return last.cause
    if last.is_orderly:
        return "it was restarted" if last.was_trial else "its kernel left no trace"
    if phase is Phase.TRIAL:
        return "an unknown reset or power cut during the trial"
    what = "while its kernel ran" if last.was_trial else "which left no trace"
    return f"an unknown reset or power cut, {what}"


@dataclass(slots=True, kw_only=True)
class Upgrader:
    """The upgrades of a machine. ``list_checks`` names what is healthy now, which a trial has to match."""

    state: State
    meta: MetaStore
    slots: Slots
    publish: Callable[[Message], object]
    log: Log
    cmdline: str
    list_checks: Callable[[], Awaitable[Sequence[str]]]
    keep_logs: Callable[[str], Awaitable[None]]
    """Keeps those of this boot, which is given up for the reason."""
    keys: Path = KEYS
    current: Upgrade = IDLE
    cause: str = ""
    """Why the boot before this one failed, as far as it left that."""
    has_begun: bool = False
    """Whether META is read, and with it known what this boot is."""
    _listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _writing: trio.Lock = field(default_factory=trio.Lock)
    _is_claimed: bool = False
    """Whether a call installs a system, from before it looks at the release until its end."""
    _is_over: bool = False
    """Whether the trial of this boot was reverted: what is left is the reboot into the other slot."""
    _is_judging: bool = False
    """Whether the lock is held for a moment, for which others wait."""

    @property
    def is_guarded(self) -> bool:
        """Whether this system was started for one time only, so that a watchdog was armed."""
        return parse_cmdline(self.cmdline).is_on(TRIAL_ARGUMENT)

    @property
    def running(self) -> str:
        """The slot that runs; empty where no slot was booted."""
        return find_slot(self.cmdline)

    @property
    def fallback(self) -> str:
        """That GRUB could not start the default, or a person chose another; empty when it was started."""
        default = find_default(self.current)
        if not (self.running and default) or self.running == default:
            return ""
        return f"slot {default} is the default, but slot {self.running} was started: an upgrade repairs it"

    def listen(self, listener: Callable[[], None]) -> None:
        """A callback after every change."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    async def begin(self, last: LastBoot | None) -> bool:
        """Once META is read: find out whether this boot is a trial, or, which is True, the end of one."""
        try:
            before = parse_state(await self.meta.get(STATE_TAG))
        except ValueError as error:
            self.log.warning("META's record of the last upgrade is unusable and dropped", reason=str(error))
            before = IDLE
            with self._going_on():
                await self.meta.delete(STATE_TAG)
        cause = await self._find_loader_cause(before) or explain(last, before.phase)
        after = start(before, running=self.running, cause=cause)
        self.current, self.cause = before, last.cause if last else ""
        is_news = after != before
        if is_news:
            with self._going_on():
                await self._set(after)
            self.current = after
        if after.phase is Phase.TRIAL:
            self.log.info(f"{after.version} in slot {after.slot} is on trial until its self-check is done")
            self.publish(pb.PhaseEvent(phase=SELF_CHECK, action=pb.PhaseEvent.START))
        elif after.phase is Phase.REVERTED:
            with self._going_on():
                is_news |= await self.meta.delete(ANNOUNCE_TAG)
            if is_news:
                self._announce(after)
        if self.fallback:
            self.log.error(self.fallback)
        self.has_begun = True
        self._notify()
        return after != before and after.phase is Phase.REVERTED

    @contextmanager
    def _going_on(self) -> Generator[None]:
        """A META that takes nothing does not end a boot: the next one finds what this one found."""
        try:
            yield
        except (UserError, OSError) as error:
            self.log.warning("the state of the upgrade can't be kept in META", reason=str(error))

    async def _find_loader_cause(self, before: Upgrade) -> str:
        """That a new boot loader did not start what was staged; empty when it did, or there was none."""
        if before.phase is not Phase.STAGED or self.running != before.previous:
            return ""
        try:
            return LOADER_FAILED if (await self.slots.read()).has_failed_loader else ""
        except (UserError, OSError):
            return ""  # what is wrong with the slots is reported when they are used

    def _announce(self, state: Upgrade) -> None:
        self.log.error(f"the upgrade to {state.version} was reverted", reason=state.reason)
        event = pb.SequenceEvent(sequence="upgrade", action=pb.SequenceEvent.NOOP)
        event.error.CopyFrom(CommonError(code=CommonCode.FATAL, message=f"reverted: {state.reason}"))
        self.publish(event)

    async def check(self, release: Release, *, force: bool = False) -> None:
        """UserError when this release must not replace what runs."""
        version = get_version()
        problems = check_release(
            release.manifest,
            version=version.tag,
            architecture=version.arch,
            features=await self._find_features(),
            force=force,
        )
        built = await trio.to_thread.run_sync(release.layer.read_commit_time)
        problems += check_commit_time(
            release.manifest, built, version=version.tag, running=version.commit_time, force=force
        )
        if problems:
            raise UserError("; ".join(problems), where=f"image {release.name}")
        self.check_start()

    async def _find_features(self) -> Sequence[str]:
        extensions = [layer.spec.metadata.name for layer in await self.state.list(kinds.EXTENSION_STATUS)]
        return find_used(await load_config(self.state), filter(None, extensions))

    def check_start(self) -> None:
        """UserError when this boot may write no slot and choose none."""
        if not self.running:
            raise UserError(
                "this system was not started from a slot",
                where="upgrade",
                hint="install it first",
            )
        if self.current.phase is Phase.TRIAL:
            raise UserError(
                f"{self.current.version} is on trial", where="upgrade", hint="wait for its self-check to end"
            )
        if self._is_over:
            text = f"{self.current.version} was reverted, this machine reboots"
            raise UserError(text, where="upgrade", hint=f"wait until slot {self.current.previous} runs")

    async def prepare(self, release: Release, *, force: bool = False) -> Installer:
        """What writes a release to the other slot and has it booted once; UserError when it must not.

        What is healthy is recorded here, while services still run.
        """
        await self.check(release, force=force)
        slot = other_slot(self.running)
        write = await self.slots.prepare(release, slot)
        is_old = is_older(release.manifest.version, get_version().tag)
        boot_loader = b"" if is_old else await self.slots.read_boot_loader(release)
        checks = await self.list_checks()

        async def install(report: Report) -> None:
            async with self.lock():
                await self._keep_running()
                await trio.to_thread.run_sync(write, partial(trio.from_thread.run_sync, report))
                await self._stage(release.manifest.version, checks, boot_loader, report)
            report(f"{release.manifest.version} is in slot {slot}, which the next reboot tries")

        return install

    async def roll_back(self) -> None:
        """Have the system in the other slot booted once; what is staged or on trial just ends.

        UserError, OSError.
        """
        if self.current.phase is Phase.TRIAL:
            await self.revert(BY_HAND)
        if self._is_over:
            return
        if self.current.phase is Phase.STAGED:
            await self._forget_staged()
            return
        self.check_start()
        slot = other_slot(self.running)
        if self.current.phase is Phase.REVERTED and self.current.slot == slot:
            raise UserError(
                f"slot {slot} holds {self.current.version}, which was reverted: {self.current.reason}",
                where="rollback",
                hint="upgrade to another release",
            )
        async with self.lock():
            versions = await self._keep_running()
            if slot not in versions:
                raise UserError(
                    f"slot {slot} holds no system to go back to",
                    where="rollback",
                    hint="upgrade to the release that shall run",
                )
            await self._stage(versions[slot], await self.list_checks())

    async def _forget_staged(self) -> None:
        """The other slot is not booted: first the boot loader, so that a power cut leaves what runs."""
        async with self.lock():
            with trio.CancelScope(shield=True):
                await self.slots.boot_once("")
                await self._set(revert(self.current, BY_HAND))
            self._announce(self.current)

    async def _keep_running(self) -> Mapping[str, str]:
        """Let the slot that runs be the default: where that can't be started, the other one is.

        Returns the versions of all slots that can be booted.
        """
        found = await self._read_slots()
        if found.default != self.running:
            await self.slots.make_default(self.running)
            self.log.warning(f"slot {self.running} runs and is the default now", before=found.default)
        return found.versions

    @contextmanager
    def claim(self) -> Generator[ExitStack]:
        """For one call that installs at a time; UserError. With ``pop_all`` it lasts for the whole boot."""
        if self._is_claimed or self.is_writing:
            raise UserError(BUSY, where="upgrade", hint="wait for its end")
        self._is_claimed = True
        with ExitStack() as stack:
            stack.callback(self._end_claim)
            yield stack

    def _end_claim(self) -> None:
        self._is_claimed = False

    @property
    def is_writing(self) -> bool:
        """Whether a system is being written to a disk."""
        return self._writing.locked() and not self._is_judging

    def lock(self) -> trio.Lock:
        """For a caller that writes a system to a disk; UserError when another one does."""
        if self.is_writing:
            raise UserError(BUSY, where="upgrade", hint="wait for its end")
        return self._writing

    async def _stage(
        self, version: str, checks: Sequence[str], boot_loader: bytes = b"", report: Report = drop
    ) -> None:
        staged = stage(
            self.current,
            running=self.running,
            version=version,
            previous_version=get_version().tag,
            checks=checks,
        )
        with trio.CancelScope(shield=True):  # a caller who leaves has all of it or nothing
            await self._set(staged)
            await self.slots.boot_once(staged.slot, boot_loader, report)

    async def confirm(self) -> None:
        """This system has come up: GRUB counts its starts anew. UserError, OSError.

        A default that does not come up any more is given up. META is written first and the count last: after
        a power cut between them the same slot is started, and goes on here.
        """
        async with self._judging():
            found = await self._read_slots()
            if found.damage:
                self.log.warning("GRUB's environment is damaged and written anew", reason=found.damage)
            if found.count or found.damage:
                await self._judge_starts(found)
                await self.slots.reset_boot_count()
            if self.current.phase not in PENDING:
                await self._end_boot_loader_trial(found)

    @asynccontextmanager
    async def _judging(self) -> AsyncGenerator[None]:
        """One verdict at a time, such as the self-check's and that of a person."""
        async with self._writing:
            self._is_judging = True
            try:
                with trio.CancelScope(shield=True):  # a caller who leaves has all of it or nothing
                    yield
            finally:
                self._is_judging = False

    async def _judge_starts(self, found: SlotState) -> None:
        default = found.default
        if default == self.running:
            if found.count == MAX_COUNT:
                self.log.warning(f"neither slot came up in {ATTEMPTS} starts before this one")
            return
        if found.count <= ATTEMPTS:
            return  # a person chose this slot, or GRUB can't load the default's kernel
        state = self.current
        if (state.phase, state.slot, state.previous) != (Phase.REVERTED, default, self.running):
            cause = self.cause or "it left no reason"
            given_up = give_up(
                state,
                running=self.running,
                version=found.versions.get(default, "unknown"),
                running_version=get_version().tag,
                reason=f"slot {default} did not come up in {ATTEMPTS} starts: {cause}",
            )
            try:
                await self._set(given_up)
            except MetaFullError as error:
                # What fills it must not keep the slot that works from being the default.
                self.log.warning("META has no room for the reason", reason=str(error))
                self.current = given_up
            self._announce(given_up)
        await self.slots.make_default(self.running)

    async def _read_slots(self) -> SlotState:
        """The slots; the boot loader's config is written anew where it is lost, with the default it had."""
        try:
            return await self.slots.read()
        except UserError as error:
            reason = str(error)
        state = self.current
        known = {state.slot: state.version, state.previous: state.previous_version}
        default = state.previous if state.phase is Phase.TRIAL else find_default(state) or self.running
        await self.slots.restore(known | {self.running: get_version().tag}, default)
        self.log.error("the boot loader's config was damaged and is written anew", reason=reason)
        return await self.slots.read()

    async def bless(self) -> None:
        """Make the system on trial the default. UserError, OSError; then it is still on trial."""
        async with self._judging():
            if self.current.phase is not Phase.TRIAL:
                return
            await self._end_boot_loader_trial(await self._read_slots())
            await self._update_boot_loader()
            await self.slots.make_default(self.current.slot)
            await self._set(bless(self.current))
        self.publish(pb.PhaseEvent(phase=SELF_CHECK, action=pb.PhaseEvent.STOP))
        self.log.info(f"{self.current.version} in slot {self.current.slot} is the default from now on")

    async def _end_boot_loader_trial(self, found: SlotState) -> None:
        if found.has_failed_loader:
            self.log.warning("the upgrade's boot loader did not come up and is left out from now on")
        try:
            await self.slots.end_boot_loader_trial(has_failed=found.has_failed_loader)
        except (UserError, OSError) as error:
            self.log.warning("what is left of a new boot loader's trial can't be removed", reason=str(error))

    async def _update_boot_loader(self) -> None:
        """Have GRUB replaced, unless this system is the older one. After a failure it is what it was."""
        state = self.current
        if is_older(state.version, state.previous_version):
            return
        try:
            await self.slots.update_boot_loader()
        except (UserError, OSError) as error:
            self.log.warning("the boot loader is not replaced by this release's", reason=str(error))

    async def revert(self, reason: str) -> None:
        """End the trial, unless it has its verdict. UserError, OSError.

        The next boot is the old slot's, even after a power cut within :meth:`bless`.
        """
        async with self._judging():
            if self.current.phase is not Phase.TRIAL:
                return
            if (await self._read_slots()).default != self.current.previous:
                await self.slots.make_default(self.current.previous)
            await self.meta.set(ANNOUNCE_TAG, b"1")
            await self._set(revert(self.current, reason))
            self._is_over = True
        self._announce(self.current)
        await self.keep_logs(reason)

    async def _set(self, state: Upgrade) -> None:
        await self.meta.set(STATE_TAG, format_state(state))
        if state.phase in PENDING:
            if await self.meta.get(LABEL_TAG) != state.previous.encode():
                await self.meta.set(LABEL_TAG, state.previous.encode())
        else:
            await self.meta.delete(LABEL_TAG)
        self.current = state
        self._notify()
