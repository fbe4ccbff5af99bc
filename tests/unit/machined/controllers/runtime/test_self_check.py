"""What decides whether a trial is kept, and when a boot is confirmed."""

import errno
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import override

import pytest
import trio
from tests.unit.upgrade.machine import Machine, make_machine

from talos.api.definitions.network_pb2 import ProbeStatusSpec, StatusSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.machined.controllers.runtime.boot_confirmation import CONFIRM_DELAY, BootConfirmationController
from talos.machined.controllers.runtime.self_check import (
    CHECK_TIMEOUT,
    FEED_INTERVAL,
    LAST_PROBES_TIMEOUT,
    MAX_STABLE,
    UNREAD,
    SelfCheckController,
    find_stable,
    find_timeout,
)
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.version import get_version
from talos.testing.watchdog import MemoryWatchdog
from talos.upgrade.state import IDLE, Phase


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


async def _set_health(state: MemoryState, *, apid: bool, network: bool) -> None:
    await put(state, kinds.SERVICE, "apid", ServiceSpec(running=True, healthy=apid))
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=network, connectivity_ready=True))


async def answer(services: Sequence[str]) -> dict[str, str]:
    """Of services that work."""
    await trio.lowlevel.checkpoint()
    assert services == ["apid"], "only services are probed"
    return {}


async def _wait(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - see below
        await trio.sleep(0.5)  # no event: the mock clock moves on only while a task sleeps


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", CHECK_TIMEOUT),
        ("=600", 600),
        ("=1", 30),
        ("=99999999", 3600),
        ("=nan", CHECK_TIMEOUT),
        ("=-5", CHECK_TIMEOUT),
        ("=\u0663", CHECK_TIMEOUT),
    ],
)
def test_the_limit_of_the_self_check_is_an_argument_of_the_kernel(text: str, limit: float) -> None:
    assert find_timeout(f"pti=on talos.trial talos.trial.limit{text} quiet") == limit


@pytest.mark.parametrize(("limit", "seconds"), [(30, 5), (120, 6), (300, 15), (3600, 15)])
def test_a_shorter_limit_has_a_shorter_time_to_stay_well(limit: float, seconds: float) -> None:
    assert find_stable(limit) == seconds


@pytest.mark.parametrize(
    ("apid", "network", "reason"),
    [
        (True, True, ""),
        (False, True, "service apid is not healthy"),
        (True, False, "the network is not ready"),
        (False, False, "service apid is not healthy; the network is not ready"),
    ],
)
async def test_the_self_check(
    apid: bool, network: bool, reason: str, machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    machine.slots.versions["B"] = get_version().tag
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await _set_health(machine.state, apid=apid, network=network)
    rebooted: list[float] = []
    watchdog = MemoryWatchdog("/dev/watchdog0")
    began = trio.current_time()

    def reboot() -> None:
        rebooted.append(trio.current_time() - began)

    controller = SelfCheckController(
        upgrader, reboot, answer, Log(write=machine.lines.append), lambda: watchdog
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        took = trio.current_time() - began
        await trio.sleep(1)
        found = {one.id: one.spec for one in await machine.state.list(kinds.DIAGNOSTIC)}
        nursery.cancel_scope.cancel()
    if reason:
        assert upgrader.current.reason == f"self-check: after {CHECK_TIMEOUT:.0f} s: {reason}"
        assert rebooted
        assert (
            rebooted[0] >= CHECK_TIMEOUT
        )  # the mock clock jumps while META is written, so there is no upper bound
        assert list(found["upgrade-reverted"].details) == [upgrader.current.reason]
        assert "/A/" in machine.slots.boot()
        assert watchdog.armed, "it ends a reboot that hangs"
    else:
        assert upgrader.current.phase is Phase.BLESSED
        assert (found, rebooted, machine.slots.default) == ({}, [], "B")
        assert took >= MAX_STABLE
        assert not watchdog.armed
    assert watchdog.fed


async def test_a_check_that_fails_itself_goes_on_where_it_was(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    """With the watchdog that is open, which can be so once, and with the images that are not read yet."""
    del autojump_clock
    machine.slots.versions["B"] = get_version().tag
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await _set_health(machine.state, apid=True, network=True)
    opened, read = list[None](), list[None]()

    class Failing(MemoryWatchdog):
        @override
        def feed(self) -> None:
            super().feed()
            if len(read) == 1:
                read.append(None)
                raise OSError(errno.EIO, "Input/output error")

    watchdog = Failing("/dev/watchdog0")

    def open_watchdog() -> MemoryWatchdog | None:
        opened.append(None)
        return watchdog if len(opened) == 1 else None

    async def read_images() -> int:
        read.append(None)
        await trio.sleep(FEED_INTERVAL)
        return 1

    controller = SelfCheckController(
        upgrader, lambda: None, answer, Log(write=machine.lines.append), open_watchdog, read_images
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert upgrader.current.phase is Phase.BLESSED, upgrader.current.reason
    assert (len(opened), watchdog.armed) == (1, False)


async def test_a_probe_of_the_config_that_fails_ends_a_trial(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await _set_health(machine.state, apid=True, network=True)
    await put(machine.state, *ids.NETWORK_STATUS, StatusSpec(address_ready=True))
    for probe, error in (("http:https://example.org/ready", ""), ("tcp:10.0.0.1:53", "connection refused")):
        await put(
            machine.state, kinds.PROBE_STATUS, probe, ProbeStatusSpec(success=not error, last_error=error)
        )
    rebooted = trio.Event()
    controller = SelfCheckController(upgrader, rebooted.set, answer, Log(write=machine.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await rebooted.wait()
        nursery.cancel_scope.cancel()
    reason = f"self-check: after {CHECK_TIMEOUT:.0f} s: probe tcp:10.0.0.1:53 fails: connection refused"
    assert upgrader.current.reason == reason


@pytest.mark.parametrize("silent", [1, 2, 1000])
async def test_a_service_that_hangs_after_it_was_ready_is_not_blessed(
    silent: int, machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    # As the last check found it, which is made every 20 s only.
    await _set_health(machine.state, apid=True, network=True)
    probed: list[float] = []
    rebooted = trio.Event()
    began = trio.current_time()

    async def probe(services: Sequence[str]) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        probed.append(trio.current_time() - began)
        return dict.fromkeys(services, "no answer within 5.0 s") if len(probed) <= silent else {}

    controller = SelfCheckController(upgrader, rebooted.set, probe, Log(write=machine.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        nursery.cancel_scope.cancel()
    assert probed[0] >= MAX_STABLE
    assert all(after - before >= MAX_STABLE for before, after in pairwise(probed))
    if silent < len(probed):
        assert (upgrader.current.phase, len(probed)) == (Phase.BLESSED, silent + 1)
    else:
        text = f"after {CHECK_TIMEOUT:.0f} s: service apid does not answer: no answer within 5.0 s"
        assert upgrader.current.reason == f"self-check: {text}"


@pytest.mark.parametrize("healthy", [True, False])
async def test_a_boot_is_confirmed_once_the_api_answers_or_after_a_while(
    machine: Machine, autojump_clock: trio.testing.MockClock, *, healthy: bool
) -> None:
    del autojump_clock
    upgrader, began = await machine.boot(), trio.current_time()
    assert machine.slots.count == 1
    controller = BootConfirmationController(upgrader, Log(write=machine.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await trio.sleep(5)
        assert machine.slots.count == 1
        await _set_health(machine.state, apid=healthy, network=False)
        await _wait(lambda: machine.slots.count == 0)
        nursery.cancel_scope.cancel()
    took = trio.current_time() - began
    assert took < CONFIRM_DELAY if healthy else took >= CONFIRM_DELAY


async def test_a_trial_is_confirmed_by_its_self_check_only(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    machine.slots.count = 2
    await _set_health(machine.state, apid=True, network=False)
    controller = BootConfirmationController(upgrader, Log(write=machine.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await trio.sleep(2 * CONFIRM_DELAY)
        assert machine.slots.count == 2
        await upgrader.bless()
        await _wait(lambda: machine.slots.count == 0)
        nursery.cancel_scope.cancel()
    assert machine.slots.default == "B"


async def test_a_trial_without_meta_goes_back(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    upgrader.at_start, upgrader.current = None, IDLE
    watchdog, rebooted = MemoryWatchdog("/dev/watchdog0"), trio.Event()
    log = Log(write=machine.lines.append)
    controller = SelfCheckController(upgrader, rebooted.set, answer, log, lambda: watchdog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await rebooted.wait()
        await trio.testing.wait_all_tasks_blocked()
        fed = watchdog.fed
        await trio.sleep(CHECK_TIMEOUT)
        nursery.cancel_scope.cancel()
    assert (watchdog.armed, watchdog.fed) == (True, fed)


@pytest.mark.parametrize("took", [LAST_PROBES_TIMEOUT - 1, inf])
async def test_the_watchdog_is_fed_during_the_last_probes_unless_they_hang(
    took: float, machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await _set_health(machine.state, apid=True, network=True)
    fed: list[float] = []

    class RecordedWatchdog(MemoryWatchdog):
        @override
        def feed(self) -> None:
            if upgrader.current.phase is Phase.TRIAL:  # the mock clock jumps while META is written
                fed.append(trio.current_time())

    async def probe(services: Sequence[str]) -> dict[str, str]:
        del services
        await trio.sleep(took)
        return {}

    watchdog, log = RecordedWatchdog("/dev/watchdog0"), Log(write=machine.lines.append)
    controller = SelfCheckController(upgrader, lambda: None, probe, log, lambda: watchdog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await trio.sleep(2 * MAX_STABLE + 4 * LAST_PROBES_TIMEOUT)
        silent = trio.current_time() - fed[-1]
        nursery.cancel_scope.cancel()
    assert max(later - earlier for earlier, later in pairwise(fed)) <= FEED_INTERVAL
    assert (upgrader.current.phase is Phase.TRIAL) is (took == inf)
    if took == inf:
        assert silent > 2 * LAST_PROBES_TIMEOUT, "the watchdog resets the machine"


async def test_a_trial_is_kept_only_after_every_block_was_read(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader, began = await machine.boot(), trio.current_time()
    await _set_health(machine.state, apid=False, network=True)
    times: list[float] = []

    async def read_slowly() -> int:
        times.append(trio.current_time() - began)
        await trio.sleep(4 * MAX_STABLE)
        times.append(trio.current_time() - began)
        return 4096

    log = Log(write=machine.lines.append)
    controller = SelfCheckController(upgrader, lambda: None, answer, log, read_images=read_slowly)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await trio.sleep(MAX_STABLE)
        await _set_health(machine.state, apid=True, network=True)
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert upgrader.current.phase is Phase.BLESSED
    assert times[0] >= MAX_STABLE, "it was read while services began"
    assert times[1] <= took


async def test_a_trial_whose_images_are_never_read_to_the_end_goes_back(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader, rebooted = await machine.boot(), trio.Event()
    await _set_health(machine.state, apid=True, network=True)
    log = Log(write=machine.lines.append)
    controller = SelfCheckController(upgrader, rebooted.set, answer, log, read_images=trio.sleep_forever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await rebooted.wait()
        nursery.cancel_scope.cancel()
    assert upgrader.current.reason == f"self-check: after {CHECK_TIMEOUT:.0f} s: {UNREAD}"


async def test_images_that_cannot_be_opened_do_not_end_a_trial(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await _set_health(machine.state, apid=True, network=True)

    async def read() -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/dm-0")

    log = Log(write=machine.lines.append)
    controller = SelfCheckController(upgrader, lambda: None, answer, log, read_images=read)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        nursery.cancel_scope.cancel()
    assert upgrader.current.phase is Phase.BLESSED
    assert any("/dev/dm-0" in line for line in machine.lines)
