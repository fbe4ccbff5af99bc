"""The clock follows time servers or a PTP device: TimeStatus, which services wait for, and its details."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from talos.api.definitions.time_pb2 import AdjtimeStatusSpec, NTPStatusSpec, StatusSpec
from talos.api.timestamps import make_duration
from talos.config.active import read_config
from talos.config.effective import network as effective
from talos.resource import ids
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.clock import Adjtime, Clock
from talos.system.logging import Log
from talos.timed.discipline import EPOCH_THRESHOLD, MIN_POLL, Discipline
from talos.timed.ntp.packet import Sample
from talos.timed.ntp.select import Estimate, select

CONTAINER = "container"
"""The platform whose nodes have the clock of the machine below them, whose task it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the clock follows. ``boot_timeout`` in seconds, 0 for ever."""

    enabled: bool
    servers: tuple[str, ...] = ()
    use_nts: bool = False
    devices: tuple[str, ...] = ()
    boot_timeout: float = 0.0


class Source(Protocol):
    """What the clock is compared with."""

    async def query(self) -> Sequence[Sample]:
        """One sample of each server that answers."""
        ...

    @property
    def retry(self) -> float:
        """Seconds until the next question when there was no answer."""
        ...


type OpenSource = Callable[[Settings], Source]


class TimeSyncController(Controller):
    """TimeServerStatus, MachineConfig → the clock, TimeStatus, NTPStatus, AdjtimeStatus."""

    name = "time.SyncController"
    inputs = (Input(*ids.TIME_SERVER_STATUS), Input(*ids.MACHINE_CONFIG), Input(*ids.PLATFORM_METADATA))
    outputs = (Output(ids.TIME_STATUS[0]), Output(ids.NTP_STATUS[0]), Output(ids.ADJTIME_STATUS[0]))

    def __init__(self, clock: Clock, open_source: OpenSource, log: Log) -> None:
        self._clock = clock
        self._open_source = open_source
        self._log = log
        self._discipline: Discipline | None = None
        self._synced = False
        self._epoch = 0

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the settings until cancelled; a timed that was replaced goes on where the last one was."""
        before = await runtime.get_or_none(*ids.TIME_STATUS)
        if before is not None:
            self._epoch = before.spec.epoch
            self._synced = before.spec.synced and not before.spec.sync_disabled and self._clock.read().synced
        self._discipline = Discipline(self._clock, is_synced=self._synced)
        settings: Settings | None = None
        async with trio.open_nursery() as nursery:
            following = trio.CancelScope()
            async for _ in runtime.events():
                wanted = await read_settings(runtime)
                if wanted is not None and wanted != settings:
                    settings = wanted
                    following.cancel()
                    following = trio.CancelScope()
                    nursery.start_soon(self._follow, runtime, settings, following)
                runtime.reset_backoff()

    async def _follow(self, runtime: ControllerRuntime, settings: Settings, scope: trio.CancelScope) -> None:
        """Keep the clock by one set of sources until they change."""
        with scope:
            if not settings.enabled:
                self._synced = True
                async with runtime.track_outputs():
                    await self._write_status(runtime, is_disabled=True)
                return
            await self._write_status(runtime)
            async with trio.open_nursery() as nursery:
                if settings.boot_timeout and not self._synced:
                    nursery.start_soon(self._give_up_waiting, runtime, settings.boot_timeout)
                source = self._open_source(settings)
                pause = 0.0
                while True:
                    await trio.sleep(pause)
                    pause = await self._compare(runtime, source)

    async def _give_up_waiting(self, runtime: ControllerRuntime, seconds: float) -> None:
        await trio.sleep(seconds)
        if not self._synced:
            self._log.warning(f"the time is not synchronized after {seconds:g} s; booting goes on without")
            self._synced = True
            await self._write_status(runtime)

    async def _compare(self, runtime: ControllerRuntime, source: Source) -> float:
        """One comparison; returns the seconds until the next one."""
        assert self._discipline is not None
        samples = await source.query()
        estimate = select(samples)
        if estimate is None:
            if samples:
                answers = ", ".join(f"{sample.server} {sample.offset:+.3f} s" for sample in samples)
                self._log.once(f"time servers disagree without a majority: {answers}", key="select")
                return max(source.retry, 2.0**MIN_POLL)
            return source.retry
        self._report(estimate)
        outcome = self._discipline.follow(estimate)
        if outcome.step:
            self._log.info(f"the clock was set by {outcome.step:+.3f} s", servers=", ".join(estimate.servers))
        if outcome.spikes:
            self._log.once(
                f"{', '.join(estimate.servers)}: off by {estimate.offset:+.0f} s, ignored unless it lasts",
                key="spike",
            )
        else:
            self._log.forget("spike")
            self._synced = True
            self._epoch += abs(outcome.step) > EPOCH_THRESHOLD
        await self._write_status(runtime)
        spikes = NTPStatusSpec(spike_detected=outcome.spikes > 0, consecutive_spikes=outcome.spikes)
        await runtime.put(*ids.NTP_STATUS, spikes)
        await runtime.put(*ids.ADJTIME_STATUS, make_adjtime_status(self._clock.read()))
        return outcome.pause

    def _report(self, estimate: Estimate) -> None:
        self._log.forget("select")
        if estimate.rejected:
            names = ", ".join(sorted(estimate.rejected))
            self._log.once(f"time servers rejected, as the majority disagrees: {names}", key="rejected")
        else:
            self._log.forget("rejected")

    async def _write_status(self, runtime: ControllerRuntime, *, is_disabled: bool = False) -> None:
        status = StatusSpec(synced=self._synced, epoch=self._epoch, sync_disabled=is_disabled)
        await runtime.put(*ids.TIME_STATUS, status)


async def read_settings(runtime: ControllerRuntime) -> Settings | None:
    """What the clock shall follow; None while that is not known yet."""
    platform = await runtime.get_or_none(*ids.PLATFORM_METADATA)
    if platform is None:
        return None
    config = await read_config(runtime)
    sync = effective.time_sync(config) if config is not None else effective.TimeSync()
    if platform.spec.platform == CONTAINER or not sync.enabled:
        return Settings(enabled=False)
    if sync.devices:
        return Settings(enabled=True, devices=sync.devices, boot_timeout=sync.boot_timeout)
    servers = await runtime.get_or_none(*ids.TIME_SERVER_STATUS)
    if servers is None or not servers.spec.ntp_servers:
        return None
    return Settings(
        enabled=True,
        servers=tuple(servers.spec.ntp_servers),
        use_nts=servers.spec.use_nts,
        boot_timeout=sync.boot_timeout,
    )


def make_adjtime_status(state: Adjtime) -> AdjtimeStatusSpec:
    """The kernel's discipline as a resource."""
    return AdjtimeStatusSpec(
        offset=make_duration(state.offset),
        frequency_adjustment_ratio=state.frequency_ratio,
        max_error=make_duration(state.max_error),
        est_error=make_duration(state.est_error),
        status=state.status,
        constant=state.constant,
        sync_status=state.synced,
        state=state.state,
    )
