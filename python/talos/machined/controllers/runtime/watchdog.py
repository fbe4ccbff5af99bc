"""The hardware watchdog: armed as configured, fed from PID 1's event loop.

A thread would feed it while the loop is blocked; this way a machine with a hanging PID 1 is reset.
"""

from collections.abc import Callable
from math import inf
from typing import override

from talos.api.definitions.runtime_pb2 import WatchdogTimerConfigSpec, WatchdogTimerStatusSpec
from talos.api.timestamps import make_duration
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log
from talos.system.watchdog import Watchdog

DEFAULT_TIMEOUT = 60
"""Seconds."""
FEEDS = 3
"""Feeds within one time-out."""
CAUTIOUS = 5.0
"""Seconds between feeds of a device that refused the time-out: its own may be short."""
RETRY = 30.0
"""Seconds until a device that could not be used is tried again."""

type OpenWatchdog = Callable[[str], Watchdog]


class WatchdogTimerConfigController(Reconciler):
    """MachineConfig → WatchdogTimerConfig."""

    name = "runtime.WatchdogTimerConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(ids.WATCHDOG_TIMER_CONFIG[0]),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the configured timer."""
        config = await read_config(runtime)
        document = None if config is None else effective.watchdog_timer(config)
        async with runtime.track_outputs():
            if document is not None and document.device:
                seconds = document.timeout.seconds if document.timeout else DEFAULT_TIMEOUT
                spec = WatchdogTimerConfigSpec(device=document.device, timeout=make_duration(int(seconds)))
                await runtime.put(*ids.WATCHDOG_TIMER_CONFIG, spec)


class WatchdogTimerController(Reconciler):
    """WatchdogTimerConfig → the device, WatchdogTimerStatus; a failure leaves the watchdog armed."""

    name = "runtime.WatchdogTimerController"
    inputs = (Input(*ids.WATCHDOG_TIMER_CONFIG),)
    outputs = (Output(ids.WATCHDOG_TIMER_STATUS[0]),)

    def __init__(self, open_watchdog: OpenWatchdog, log: Log) -> None:
        self._open = open_watchdog
        self._log = log
        self._watchdog: Watchdog | None = None
        self._applied: WatchdogTimerConfigSpec | None = None

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        if self._watchdog is not None:
            self._watchdog.feed()
        resource = await runtime.get_or_none(*ids.WATCHDOG_TIMER_CONFIG)
        wanted = None if resource is None else resource.spec
        if wanted != self._applied:
            self._release(wanted)
            status = self._apply(wanted)
            async with runtime.track_outputs():
                if status is not None:
                    await runtime.put(*ids.WATCHDOG_TIMER_STATUS, status)

    def _release(self, wanted: WatchdogTimerConfigSpec | None) -> None:
        """Disarm the device unless only its time-out changes."""
        applied, self._applied = self._applied, None
        if self._watchdog is None:
            return
        if wanted is None or applied is None or wanted.device != applied.device:
            self._watchdog.disarm()
            self._watchdog = None
            self._log.info("the watchdog is disarmed", device=applied.device if applied else "")

    def _apply(self, wanted: WatchdogTimerConfigSpec | None) -> WatchdogTimerStatusSpec | None:
        self.interval = inf
        if wanted is None:
            return None
        try:
            if self._watchdog is None:
                self._watchdog = self._open(wanted.device)
            timeout = self._watchdog.set_timeout(wanted.timeout.seconds)
        except OSError as error:
            # An open device is armed whatever its time-out is, so it is still fed.
            self.interval = RETRY if self._watchdog is None else CAUTIOUS
            reason = error.strerror or str(error)
            self._log.once(f"watchdog {wanted.device}: {reason}", key="watchdog", level="error")
            return None
        self._applied = WatchdogTimerConfigSpec()
        self._applied.CopyFrom(wanted)
        self.interval = timeout / FEEDS
        self._log.forget("watchdog")
        self._log.info("the watchdog is armed", device=wanted.device, timeout=timeout)
        return WatchdogTimerStatusSpec(
            device=wanted.device,
            timeout=make_duration(timeout),
            feed_interval=make_duration(self.interval),
        )
