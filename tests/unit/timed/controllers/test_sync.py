"""The clock follows its settings; time runs by trio's clock."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from tests.harness.rest import CountingState, check_rest
from trio.testing import MockClock

from talos.api.definitions.network_pb2 import TimeServerStatusSpec
from talos.api.definitions.runtime_pb2 import PlatformMetadataSpec
from talos.api.definitions.time_pb2 import StatusSpec
from talos.resource import ids
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.testing.clock import MemoryClock
from talos.timed.controllers.sync import Settings, Source, TimeSyncController
from talos.timed.main import make_controllers
from talos.timed.ntp.packet import Sample

NOW = 1_800_000_000.0


@dataclass
class Twin:
    """A server that answers by the true time plus ``errors`` as soon as it is reachable."""

    clock: MemoryClock
    errors: dict[str, float] = field(default_factory=dict[str, float])
    reachable: bool = True
    opened: list[Settings] = field(default_factory=list[Settings])
    retry: float = 1.0

    def open(self, settings: Settings) -> Source:
        self.opened.append(settings)
        return self

    async def query(self) -> Sequence[Sample]:
        await trio.lowlevel.checkpoint()
        if not self.reachable:
            return []
        offsets = [
            (server, self.clock.lag + self.errors.get(server, 0.0)) for server in self.opened[-1].servers
        ]
        return [
            Sample(server=server, local=self.clock.now(), offset=offset, delay=0.0, distance=0.001)
            for server, offset in offsets
        ]


@asynccontextmanager
async def running(
    twin: Twin,
    *,
    platform: str = "metal",
    servers: Sequence[str] = ("a", "b", "c"),
    before: StatusSpec | None = None,
) -> AsyncGenerator[MemoryState]:
    state = MemoryState()
    await put(state, *ids.PLATFORM_METADATA, PlatformMetadataSpec(platform=platform))
    await put(state, *ids.TIME_SERVER_STATUS, TimeServerStatusSpec(ntp_servers=servers))
    if before is not None:
        await put(state, *ids.TIME_STATUS, before, owner=TimeSyncController.name)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, make_controllers(twin.clock, twin.open, Log({})))
        yield state
        nursery.cancel_scope.cancel()


async def wait_until_synced(state: MemoryState) -> StatusSpec:
    return (await wait_for(state, *ids.TIME_STATUS, lambda resource: resource.spec.synced)).spec


async def test_a_wrong_clock_is_set_and_a_new_epoch_begins(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW, lag=NOW))
    async with running(twin) as state:
        status = await wait_until_synced(state)
        await wait_for(state, *ids.ADJTIME_STATUS, lambda resource: resource.spec.sync_status)
    assert (status.epoch, status.sync_disabled) == (1, False)
    assert twin.clock.lag == 0.0


async def test_a_container_leaves_the_clock_alone(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW, lag=5.0))
    async with running(twin, platform="container") as state:
        assert (await wait_until_synced(state)).sync_disabled
    assert twin.opened == []


async def test_a_replaced_timed_goes_on_without_setting_the_clock(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW, lag=0.05, synced=True))
    async with running(twin, before=StatusSpec(synced=True, epoch=3)) as state:
        await wait_for(state, *ids.ADJTIME_STATUS, lambda resource: resource.spec.sync_status)
        assert (await state.get(*ids.TIME_STATUS)).spec == StatusSpec(synced=True, epoch=3)
    assert (twin.clock.steps, twin.clock.slews[0]) == ([], 0.05)


async def test_silent_servers_are_queried_until_they_answer(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW, lag=50.0), reachable=False)
    async with running(twin) as state:
        await trio.sleep(500)
        assert not (await state.get(*ids.TIME_STATUS)).spec.synced
        twin.reachable = True
        await wait_until_synced(state)
    assert twin.clock.lag == 0.0


async def test_servers_of_a_new_config_are_followed(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW, lag=50.0), errors={"a": 60.0})
    async with running(twin, servers=["a", "b"]) as state:
        await trio.sleep(100)
        assert not (await state.get(*ids.TIME_STATUS)).spec.synced
        await put(state, *ids.TIME_SERVER_STATUS, TimeServerStatusSpec(ntp_servers=["b"]))
        await wait_until_synced(state)
    assert [settings.servers for settings in twin.opened] == [("a", "b"), ("b",)]


async def test_spikes_are_shown(autojump_clock: MockClock) -> None:
    del autojump_clock
    twin = Twin(MemoryClock(start=NOW))
    async with running(twin, servers=["a"]) as state:
        await wait_until_synced(state)
        twin.errors["a"] = 400_000_000.0
        found = await wait_for(state, *ids.NTP_STATUS, lambda resource: resource.spec.spike_detected)
        assert found.spec.consecutive_spikes == 1
        twin.errors.clear()
        await wait_for(state, *ids.NTP_STATUS, lambda resource: not resource.spec.spike_detected)
    assert twin.clock.steps == []


@pytest.mark.parametrize("platform", ["metal", "container"])
async def test_nothing_is_written_without_a_change(platform: str) -> None:
    state = CountingState()
    clock = MemoryClock(start=NOW)
    twin = Twin(clock, reachable=False, retry=3600.0)
    await put(state.memory, *ids.PLATFORM_METADATA, PlatformMetadataSpec(platform=platform))
    await put(state.memory, *ids.TIME_SERVER_STATUS, TimeServerStatusSpec(ntp_servers=["a"]))
    await check_rest(state, make_controllers(clock, twin.open, Log({})))
