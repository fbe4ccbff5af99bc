"""What is done with releases: they are checked, written and have a trial, or a node goes back.

The order is the same for each call that does so: one call at a time, the release is checked, then written,
then META has the state, then the slot is booted once.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import Code as CommonCode
from talos.api.common.common_pb2 import Error as CommonError
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError, format_reason
from talos.config.active import load_config
from talos.config.effective.trial_checks import list_trial_checks
from talos.resource import ids, kinds
from talos.resource.state import NotFoundError, State
from talos.system.errors import UserError
from talos.system.version import get_version
from talos.upgrade.node import NodeUpgrade
from talos.upgrade.release.features import TRIAL_CHECKS, find_used
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import check_commit_time, check_release, is_older
from talos.upgrade.release.signature import KEYS
from talos.upgrade.slots.open_keys import Prepared
from talos.upgrade.slots.port import Report, drop
from talos.upgrade.state import BUSY, TRIAL_CHECK, Phase, other_slot, revert, stage
from talos.upgrade.trial_checks import wait_for_checks

ROLLED_BACK = "rolled back by hand"
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


@dataclass(frozen=True, slots=True)
class Steps:
    """Publishes phases with one task each."""

    publish: Callable[[Message], object]

    @asynccontextmanager
    async def sequence(self, name: str) -> AsyncGenerator[None]:
        """From the first event to the last, which has the reason of a failure."""
        self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.START))
        try:
            yield
        except Exception as error:
            failed = CommonError(code=CommonCode.FATAL, message=format_reason(error))
            self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.NOOP, error=failed))
            raise
        self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.STOP))

    @asynccontextmanager
    async def phase(self, name: str, task: str) -> AsyncGenerator[None]:
        """One phase; a failure leaves it without its end, as in the machine's own sequences."""
        self.publish(pb.PhaseEvent(phase=name, action=pb.PhaseEvent.START))
        self.publish(pb.TaskEvent(task=task, action=pb.TaskEvent.START))
        yield
        self.publish(pb.TaskEvent(task=task, action=pb.TaskEvent.STOP))
        self.publish(pb.PhaseEvent(phase=name, action=pb.PhaseEvent.STOP))


@dataclass(slots=True, kw_only=True)
class Upgrades(NodeUpgrade):
    """The upgrades of a node. ``list_checks`` names what is healthy now, which a trial has to match."""

    state: State
    list_checks: Callable[[], Awaitable[Sequence[str]]]
    keys: Path = KEYS
    _callers: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(1))
    """For a call that installs a system, from before it looks at the release until its end."""
    _writers: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(1))
    """For what writes a system. A verdict waits for it, and it for a verdict; a second one is refused."""

    @contextmanager
    def claim(self) -> Generator[ExitStack]:
        """For one call that installs at a time; UserError. With ``pop_all`` it lasts for the whole boot."""
        if not self._writers.value:
            raise _make_busy()
        with ExitStack() as stack:
            _take(self._callers)
            stack.callback(self._callers.release)
            yield stack

    def lock(self) -> AbstractAsyncContextManager[None]:
        """For a caller that writes a system to a disk; UserError when another one does."""
        if not self._writers.value:
            raise _make_busy()
        return self._write()

    @asynccontextmanager
    async def _write(self) -> AsyncGenerator[None]:
        _take(self._writers)
        try:
            async with self.writing:
                yield
        finally:
            self._writers.release()

    async def check(self, release: Release, *, force: bool = False) -> Sequence[Prepared]:
        """UserError when this release must not replace what runs; what is to be written with it."""
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
        return await self.slots.check(release)

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
        if self.is_over:
            text = f"{self.current.version} was reverted, this machine reboots"
            raise UserError(text, where="upgrade", hint=f"wait until slot {self.current.previous} runs")

    async def prepare(
        self, release: Release, *, force: bool = False, report: Report | None = None
    ) -> Installer:
        """What writes a release to the other slot and has it booted once; UserError when it must not.

        RpcError while the config's trial checks don't hold, which may pass: what is waited for is reported,
        to the log where there is no ``report``. What is healthy is recorded here, while services still run.
        """
        keys = await self.check(release, force=force)
        slot = other_slot(self.running)
        is_old = is_older(release.manifest.version, get_version().tag)
        held = await self._find_holding(report or self.log.info, force=force)
        # Another release could not read the record of a kind that it does not have.
        checks = [*await self.list_checks(), *(held if TRIAL_CHECKS in release.manifest.features else ())]

        async def install(report: Report) -> None:
            async with self.lock():
                await self._keep_running()
                boot_loader = await self.slots.write(release, slot, report, keys)
                await self._stage(release.manifest.version, checks, b"" if is_old else boot_loader, report)
            report(f"{release.manifest.version} is in slot {slot}, which the next reboot tries")

        return install

    async def _find_holding(self, report: Report, *, force: bool) -> list[str]:
        """The config's trial checks that hold now, as META has them; RpcError unless all do or by force."""
        config = await load_config(self.state)
        checks = list_trial_checks(config) if config else ()
        if not checks:
            return []
        self.is_preparing = True
        self._notify()
        try:
            failing = await wait_for_checks(self.state, checks, report)
        finally:
            self.is_preparing = False
            self._notify()
        if failing and not force:
            text = f"fails already before the upgrade: {'; '.join(failing.values())}"
            hint = "mend what it checks, or remove the TrialCheckConfig"
            raise RpcError(Code.FAILED_PRECONDITION, f"{text} ({hint})")
        for reason in failing.values():
            self.log.warning("a trial check does not hold and does not count in the trial", reason=reason)
        return [f"{TRIAL_CHECK}{check.name}" for check in checks if check.name not in failing]

    async def roll_back(self) -> None:
        """Have the system in the other slot booted once; what is staged or on trial just ends.

        UserError, OSError.
        """
        if self.current.phase is Phase.TRIAL:
            await self.revert(ROLLED_BACK)
        if self.is_over:
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
            await self.slots.check_slot(slot)
            await self._stage(versions[slot], await self.list_checks())

    async def _forget_staged(self) -> None:
        """The other slot is not booted: first the boot loader, so that a power cut leaves what runs."""
        async with self.lock():
            with trio.CancelScope(shield=True):
                await self.slots.boot_once("")
                await self.set(revert(self.current, ROLLED_BACK))
            self.announce(self.current)

    async def _keep_running(self) -> Mapping[str, str]:
        """Let the slot that runs be the default: where that can't be started, the other one is.

        Returns the versions of all slots that can be booted.
        """
        found = await self.read_slots()
        if found.default != self.running:
            await self.slots.make_default(self.running)
            self.log.warning(f"slot {self.running} runs and is the default now", before=found.default)
        return found.versions

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
            await self.set(staged)
            await self.slots.boot_once(staged.slot, boot_loader, report)


def _take(semaphore: trio.Semaphore) -> None:
    try:
        semaphore.acquire_nowait()
    except trio.WouldBlock:
        raise _make_busy() from None


def _make_busy() -> UserError:
    return UserError(BUSY, where="upgrade", hint="wait for its end")
