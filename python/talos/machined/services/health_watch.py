"""Health checks of one service while it runs, and the end of a process that does not answer."""

import signal
from math import inf

import trio

from talos.machined.node.child import Child
from talos.machined.services.health import (
    FAILING_CHECK_INTERVAL,
    Connect,
    HealthCheck,
    KeptChannels,
    ProcessorWaits,
)
from talos.machined.services.lifecycle import Lifecycle
from talos.system.logging import Log


class HealthWatch:
    """Repeats the check of a service, which may have none."""

    def __init__(self, check: HealthCheck | None, life: Lifecycle, connect: Connect, log: Log) -> None:
        self._check = check
        self._life = life
        self._connect = connect
        self._log = log
        self._last_answer = -inf

    def begin(self) -> None:
        """Forget the answers of the process before."""
        self._last_answer = -inf

    def set_ready(self) -> None:
        """A daemon's report of its readiness is its first health check."""
        self._last_answer = trio.current_time()
        self._life.set_health(healthy=True, message="")

    async def run(self, child: Child | None) -> None:
        """Check until this is cancelled, or until the process was killed as it did not answer.

        A failure is reported only if it repeats: a starting service or a loaded machine answers later.
        """
        if self._check is None:
            return
        channels = KeptChannels(self._connect)
        try:
            await self._repeat(self._check, child, channels.connect)
        finally:
            await channels.close()

    async def _repeat(self, check: HealthCheck, child: Child | None, connect: Connect) -> None:
        failures, waits = 0, None
        began = trio.current_time()
        await trio.sleep(check.initial_delay)
        while True:
            message = await _probe(check, connect)
            now = trio.current_time()
            failures = failures + 1 if message else 0
            has_answered = self._last_answer > -inf
            if not message:
                self._last_answer = now
            if not message or (failures > 1 and (has_answered or now - began > check.startup_grace)):
                self._life.set_health(healthy=not message, message=message)
            limit = check.silence if has_answered else check.start_timeout
            silent = now - max(began, self._last_answer)
            if child is not None and failures == 1:
                waits = ProcessorWaits(child.pid)
            if child is not None and waits is not None and silent > limit and waits.discount(silent) > limit:
                self._log.error(
                    "a service has not answered, it is restarted",
                    id=self._life.id,
                    pid=child.pid,
                    seconds=round(silent),
                    reason=message,
                )
                child.signal(signal.SIGKILL)
                return
            is_early = failures == 1 or not has_answered
            period = min(check.period, FAILING_CHECK_INTERVAL) if failures else check.period
            await trio.sleep(check.initial_delay if is_early else period)

    async def probe(self) -> str:
        """Check it out of turn: the failure, when it repeats; empty for what has no check, too."""
        if self._check is None or not await _probe(self._check, self._connect):
            return ""
        return await _probe(self._check, self._connect)


async def _probe(check: HealthCheck, connect: Connect) -> str:
    """The failure of the service, empty when it is healthy."""
    try:
        with trio.fail_after(check.timeout):
            await check.probe(connect)
    except trio.TooSlowError:
        return f"no answer within {check.timeout} s"
    except Exception as error:  # noqa: BLE001 - any error is the probe's result
        return str(error) or type(error).__name__
    return ""
