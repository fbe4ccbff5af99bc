"""The self-check of a system on trial: what was healthy before has to be healthy again, within a limit.

And every block of the system's images is read: a damaged one is a panic (dm-verity), which on trial is the
way back, and later would come whenever something reads that block.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.machined.controllers.runtime.trial_health import find_unmet, is_service, read_trial_checks
from talos.machined.controllers.runtime.trial_probes import put_probe
from talos.machined.node.ports.upgrades import Trial
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.watchdog import KernelWatchdog, Watchdog, find_watchdog
from talos.upgrade.state import TIMEOUT_ARGUMENT, Phase, Upgrade
from talos.upgrade.trial_checks import INPUTS, find_failing, wait_for_last_probes

CHECK_TIMEOUT = 300.0
"""Seconds from the start of the trial until everything has to be healthy; a kernel argument names others."""
MIN_TIMEOUT, MAX_TIMEOUT = 30.0, 3600.0  # seconds
STABLE_SHARE = 1 / 20
"""The part of the limit for which everything has to stay healthy: 15 s of :data:`CHECK_TIMEOUT`. Then every
service is probed once more: those that answer are otherwise probed every 20 s only, so that one that hangs in
between would still pass for healthy. Then so is every trial check, whose probe under way may have 10 s.
"""
MIN_STABLE, MAX_STABLE = 5.0, 15.0
"""Seconds; a longer limit is for a start that is slower."""
RETRY = 10.0
"""Seconds until the boot loader's config is written again, should that fail, or services probed."""
FEED_INTERVAL = 20.0
"""Seconds between two feeds of the watchdog."""
LAST_PROBES_TIMEOUT = 60.0
"""Seconds for which the watchdog is fed while the last probes run: services' take 30, trial checks' 15."""
UNREAD = "the system's images are not read whole"
"""What is amiss when the limit is over before they are."""
REVERTED, TRIAL, FALLBACK = "upgrade-reverted", "upgrade-trial", "upgrade-fallback"
"""Ids of the diagnostics."""


type Probe = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Probes services now; the failures of those that don't answer."""
type ReadImages = Callable[[], Awaitable[int]]
"""Reads every block of the system's images; the number of bytes. OSError."""
type OpenWatchdog = Callable[[], Watchdog | None]
"""Opens the watchdog that was armed at the start, if there is one."""


def open_watchdog() -> Watchdog | None:
    """The machine's watchdog; None when there is none, or another program feeds it."""
    device = find_watchdog()
    try:
        return KernelWatchdog(device) if device else None
    except OSError:
        return None


async def read_nothing() -> int:
    """For a system whose images the kernel compares with nothing."""
    await trio.lowlevel.checkpoint()
    return 0


class SelfCheckController(Controller):
    """Service, NetworkStatus, ProbeStatus → the verdict on the system on trial, and Diagnostic.

    The other inputs are those of the config's trial checks, as whose last probes it writes ProbeSpec.
    """

    name = "runtime.SelfCheckController"
    inputs = (*(Input(kind) for kind in INPUTS), Input(*ids.MACHINE_CONFIG))
    outputs = (Output(kinds.DIAGNOSTIC, shared=True), Output(kinds.PROBE_SPEC, shared=True))

    def __init__(
        self,
        upgrader: Trial,
        reboot: Callable[[], object],
        probe: Probe,
        log: Log,
        open_watchdog: OpenWatchdog = lambda: None,
        read_images: ReadImages = read_nothing,
    ) -> None:
        self._upgrader = upgrader
        self._reboot = reboot
        self._probe = probe
        self._log = log
        self._open = open_watchdog
        self._watchdog: Watchdog | None = None
        self._read_images = read_images
        self._is_reading = False
        self._is_read = False
        self._limit = CHECK_TIMEOUT
        self._deadline = inf
        self._healthy_since = inf
        self._were_probed = False
        self._probed = 0
        self._has_ended = False

    @property
    def _stable(self) -> float:
        return find_stable(self._limit)

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the trial; a machine that is not on trial only shows what the last one came to."""
        self._is_reading = False  # after a failure, which has ended what read
        async with trio.open_nursery() as nursery:
            await self._follow(runtime, nursery)

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        self._upgrader.listen(runtime.queue_reconcile)
        if self._upgrader.is_guarded:
            # A device can be open once: after a failure it is.
            self._watchdog = self._watchdog or self._open()
            self._limit = find_timeout(self._upgrader.cmdline)
        healthy = (
            f"everything is healthy, which has to last {self._stable:.0f} s; then services are checked again"
        )
        wait = self._limit if self._upgrader.is_guarded else inf
        began = trio.current_time()
        while not self._has_ended:
            await runtime.wait_for_round(wait if self._watchdog is None else min(wait, FEED_INTERVAL))
            state = self._upgrader.current
            self._feed_or_disarm(state)
            unmet = await self._find_unmet(runtime, state.checks) if state.phase is Phase.TRIAL else []
            if state.phase is Phase.TRIAL and not (unmet or self._is_reading or self._is_read):
                # Not earlier: what starts needs the processors.
                self._is_reading = True
                nursery.start_soon(self._read, runtime)
            await _show(runtime, state, unmet or [healthy], self._upgrader.fallback)
            wait = await self._decide(unmet) if state.phase is Phase.TRIAL else inf
            if self._has_ended:
                await _show(runtime, self._upgrader.current, ())
            if self._upgrader.is_guarded and not self._upgrader.has_begun:
                wait = began + self._limit - trio.current_time()
                if wait <= 0:
                    self._log.error(f"META is not known {self._limit:.0f} s after the start, going back")
                    self._end()
            runtime.reset_backoff()
        await trio.sleep_forever()  # the machine reboots; the watchdog is not fed, should it hang

    async def _read(self, runtime: ControllerRuntime) -> None:
        began = trio.current_time()
        try:
            size = await self._read_images()
        except OSError as error:
            # No damage, which is a panic: what can't be looked at is no reason against the release.
            self._log.error("the system's images can't be read whole", reason=str(error))
        else:
            took = trio.current_time() - began
            self._log.info(f"the system's images are intact: {size:,} bytes, read in {took:.1f} s")
        self._is_read = True
        runtime.queue_reconcile()

    def _feed_or_disarm(self, state: Upgrade) -> None:
        """Feed the watchdog while this start is guarded, then disarm it."""
        self._feed()
        if self._watchdog is not None and self._upgrader.has_begun and state.phase is not Phase.TRIAL:
            self._watchdog.disarm()
            self._watchdog = None
            self._log.info("the watchdog is disarmed")

    def _feed(self) -> None:
        if self._watchdog is not None:
            self._watchdog.feed()

    @asynccontextmanager
    async def _feeding(self) -> AsyncGenerator[None]:
        """Feed the watchdog beside the last probes, unless they hang."""

        async def feed() -> None:
            with trio.move_on_after(LAST_PROBES_TIMEOUT):
                while True:
                    self._feed()
                    await trio.sleep(FEED_INTERVAL)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed)
            yield
            nursery.cancel_scope.cancel()
        self._feed()

    async def _find_unmet(self, runtime: ControllerRuntime, checks: Sequence[str]) -> list[str]:
        """What is unhealthy; once everything has stayed healthy, what does not answer now."""
        unmet, now = await find_unmet(runtime, checks), trio.current_time()
        self._were_probed = not unmet and self._is_read and now - self._healthy_since >= self._stable
        if not self._were_probed:
            return unmet or ([UNREAD] if not self._is_read and now >= self._deadline else [])
        async with self._feeding():
            failures = await self._probe([name for name in checks if is_service(name)])
            silent = [f"service {name} does not answer: {failure}" for name, failure in failures.items()]
            failing = [] if silent else await self._probe_trial_checks(runtime, checks)
        # Whatever happened meanwhile counts as well.
        return await find_unmet(runtime, checks) or silent + failing

    async def _probe_trial_checks(self, runtime: ControllerRuntime, checks: Sequence[str]) -> list[str]:
        """What does not hold by probes that begin now; what is shown next removes their specs."""
        self._probed += 1
        chosen, problems = await read_trial_checks(runtime, checks)
        for check in chosen:
            await put_probe(runtime, check, self._probed)
        await wait_for_last_probes(runtime, chosen, self._probed)
        return problems + list((await find_failing(runtime, chosen, self._probed)).values())

    async def _decide(self, unmet: Sequence[str]) -> float:
        """Bless, revert, or return the seconds until it is time for either."""
        now = trio.current_time()
        self._deadline = min(self._deadline, now + self._limit)
        if not unmet:
            self._healthy_since = min(self._healthy_since, now)
            if not self._were_probed:
                # The end of the read wakes this task.
                return max(
                    0.0, (self._healthy_since + self._stable if self._is_read else self._deadline) - now
                )
            try:
                await self._upgrader.bless()
            except (UserError, OSError) as error:
                self._log.error("the system on trial can't be made the default", reason=str(error))
                return RETRY
            return inf
        self._healthy_since = inf
        if now < self._deadline:
            # What has not answered may still count as healthy: then nothing wakes this task.
            return min(self._deadline - now, RETRY if self._were_probed else inf)
        try:
            await self._upgrader.revert(f"self-check: after {self._limit:.0f} s: {'; '.join(unmet)}")
        except (UserError, OSError) as error:
            self._log.error("the reason can't be kept in META", reason=str(error))
        self._end()
        return inf

    def _end(self) -> None:
        self._has_ended = True
        self._reboot()


def find_timeout(cmdline: str) -> float:
    """The limit in seconds: the kernel argument's where that is a number, within bounds."""
    text = parse_cmdline(cmdline).first(TIMEOUT_ARGUMENT)
    return (
        min(MAX_TIMEOUT, max(MIN_TIMEOUT, float(text)))
        if text.isascii() and text.isdigit()
        else CHECK_TIMEOUT
    )


def find_stable(limit: float) -> float:
    """Seconds for which everything has to stay healthy, by the limit in seconds."""
    return min(MAX_STABLE, max(MIN_STABLE, limit * STABLE_SHARE))


async def _show(runtime: ControllerRuntime, state: Upgrade, unmet: Sequence[str], fallback: str = "") -> None:
    async with runtime.track_outputs():
        if fallback:
            await runtime.put(kinds.DIAGNOSTIC, FALLBACK, DiagnosticSpec(message=fallback))
        if state.phase is Phase.REVERTED:
            message = f"the upgrade from {state.previous_version} to {state.version} was reverted"
            await runtime.put(
                kinds.DIAGNOSTIC, REVERTED, DiagnosticSpec(message=message, details=[state.reason])
            )
        elif state.phase is Phase.TRIAL:
            message = f"{state.version} in slot {state.slot} is on trial"
            await runtime.put(kinds.DIAGNOSTIC, TRIAL, DiagnosticSpec(message=message, details=unmet))
