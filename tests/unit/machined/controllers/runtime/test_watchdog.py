"""The watchdog: armed, fed and disarmed as the config wants it, on a clock that jumps."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.runtime.watchdog import (
    WatchdogTimerConfigController,
    WatchdogTimerController,
)
from talos.resource import ids
from talos.resource.changes import destroy_if_present, modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.state import NotFoundError
from talos.system.logging import Log
from talos.testing.watchdog import MemoryWatchdog


@dataclass(slots=True)
class Devices:
    """What can be opened, and what was."""

    missing: bool = False
    longest: int = 600
    opened: list[MemoryWatchdog] = field(default_factory=list[MemoryWatchdog])

    def open(self, device: str) -> MemoryWatchdog:
        if self.missing:
            raise FileNotFoundError(2, "No such file or directory", device)
        self.opened.append(MemoryWatchdog(device, longest=self.longest))
        return self.opened[-1]


@asynccontextmanager
async def running(devices: Devices, log: list[str]) -> AsyncGenerator[MemoryState]:
    state = MemoryState()
    controllers = [
        WatchdogTimerConfigController(),
        WatchdogTimerController(devices.open, Log(write=log.append)),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        yield state
        nursery.cancel_scope.cancel()


async def configure(state: MemoryState, device: str, after: str = "") -> None:
    text = f"apiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: {device}\n"
    text += f"timeout: {after}\n" if after else ""

    def change(spec: MachineConfigSpec) -> None:
        spec.yaml_marshalled = text.encode()

    await modify(state, *ids.MACHINE_CONFIG, change)
    await trio.sleep(1)


async def test_it_is_armed_and_fed_within_its_timeout(autojump_clock: object) -> None:
    del autojump_clock
    devices = Devices()
    async with running(devices, []) as state:
        await configure(state, "/dev/watchdog0")
        (watchdog,) = devices.opened
        assert (watchdog.device, watchdog.timeout) == ("/dev/watchdog0", 60)
        status = (await state.get(*ids.WATCHDOG_TIMER_STATUS)).spec
        assert (status.timeout.seconds, status.feed_interval.seconds) == (60, 20)
        before = watchdog.fed
        await trio.sleep(60)
        assert watchdog.fed - before == 3
        await configure(state, "/dev/watchdog0", "5m")
        assert devices.opened == [watchdog]
        assert watchdog.timeout == 300
        status = (await state.get(*ids.WATCHDOG_TIMER_STATUS)).spec
        assert (status.timeout.seconds, status.feed_interval.seconds) == (300, 100)
        await configure(state, "/dev/watchdog1", "5m")
        assert not watchdog.armed
        assert devices.opened[1].armed
        await destroy_if_present(state, *ids.MACHINE_CONFIG)
        await trio.sleep(1)
        assert not devices.opened[1].armed
        try:
            await state.get(*ids.WATCHDOG_TIMER_STATUS)
            raise AssertionError("there is still a status")
        except NotFoundError:
            pass


async def test_what_the_device_makes_of_the_timeout_counts(autojump_clock: object) -> None:
    del autojump_clock
    devices = Devices(longest=30)
    async with running(devices, []) as state:
        await configure(state, "/dev/watchdog0", "5m")
        status = (await state.get(*ids.WATCHDOG_TIMER_STATUS)).spec
        assert (status.timeout.seconds, status.feed_interval.seconds) == (30, 10)


async def test_a_device_that_comes_late_is_found(autojump_clock: object) -> None:
    del autojump_clock
    devices, log = Devices(missing=True), list[str]()
    async with running(devices, log) as state:
        await configure(state, "/dev/watchdog0")
        await trio.sleep(300)
        assert len(log) == 1
        assert "/dev/watchdog0: No such file" in log[0]
        devices.missing = False
        await trio.sleep(60)
        assert devices.opened[0].armed
        await state.get(*ids.WATCHDOG_TIMER_STATUS)
