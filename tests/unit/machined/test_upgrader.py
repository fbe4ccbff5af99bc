"""The upgrader over reboots: META in a file, slots as a twin, the events and diagnostics that say why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, override

import pytest
import trio

from talos.api.definitions.network_pb2 import StatusSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.disks.install.grub_environment import ATTEMPTS, MAX_COUNT
from talos.machined.controllers.runtime.boot_confirmation import LIMIT as COME_UP_LIMIT
from talos.machined.controllers.runtime.boot_confirmation import BootConfirmationController
from talos.machined.controllers.runtime.self_check import LIMIT, STABLE, SelfCheckController, find_limit
from talos.machined.logs.last_boot import LastBoot
from talos.machined.node.meta_store import MetaStore
from talos.machined.upgrade.image import Release
from talos.machined.upgrade.slots import Report, Slots, SlotState, Write, drop
from talos.machined.upgrade.upgrader import Upgrader
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.block.meta import COPY, make_meta
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.testing.watchdog import MemoryWatchdog
from talos.upgrade.state import IDLE, LABEL_TAG, STATE_TAG, Phase, other_slot

VERSIONS = {"A": "v1.15.0", "B": "v1.15.1"}
BROKEN = b"does not start"


@dataclass(slots=True, kw_only=True)
class FakeSlots(Slots):
    """BOOT of a machine, and GRUB."""

    default: str = "A"
    next: str = ""
    count: int = 0
    is_damaged: bool = False
    reads: int = 0
    replaced: list[str] = field(default_factory=list[str])
    """The defaults at those times when the boot loader was replaced."""
    failure: Exception | None = None
    """What the boot loader can't be replaced for."""
    loader: bytes = b""
    """The boot loader that is tried with the slot that is booted once."""
    has_failed_loader: bool = False
    ended: list[str] = field(default_factory=list[str])
    """The defaults at those times when a boot loader's trial was ended."""
    versions: dict[str, str] = field(default_factory=lambda: dict(VERSIONS))

    @override
    async def read(self) -> SlotState:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.is_damaged:
            raise UserError("is not the installer's", where="BOOT/grub/grub.cfg")
        return SlotState(
            versions=self.versions,
            default=self.default,
            count=self.count,
            has_failed_loader=self.has_failed_loader,
        )

    @override
    async def prepare(self, release: Release, slot: str) -> Write:
        await trio.lowlevel.checkpoint()
        self.versions[slot] = release.manifest.version
        return lambda report: report("written")

    @override
    async def read_boot_loader(self, release: Release) -> bytes:
        await trio.lowlevel.checkpoint()
        return f"of {release.manifest.version}".encode()

    @override
    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        await trio.lowlevel.checkpoint()
        self.next, self.count, self.loader = slot, 0, boot_loader

    @override
    async def end_boot_loader_trial(self, *, has_failed: bool) -> None:
        assert has_failed == self.has_failed_loader
        await trio.lowlevel.checkpoint()
        self.ended.append(self.default)
        if self.failure:
            raise self.failure
        self.has_failed_loader = False

    @override
    async def make_default(self, slot: str) -> None:
        await trio.lowlevel.checkpoint()
        self.default = slot

    @override
    async def reset_boot_count(self) -> None:
        await trio.lowlevel.checkpoint()
        self.count = 0

    @override
    async def restore(self, versions: Mapping[str, str], default: str) -> None:
        await trio.lowlevel.checkpoint()
        self.default, self.versions, self.is_damaged = default, dict(versions), False

    @override
    async def update_boot_loader(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        self.replaced.append(self.default)

    def boot(self) -> str:
        """The command line that GRUB starts a slot with."""
        if self.loader == BROKEN:
            self.next, self.loader, self.has_failed_loader = "", b"", True
        trial = " talos.trial" if self.next else ""
        slot, self.next = self.next or self.default, ""
        if not trial and self.count < MAX_COUNT:
            self.count += 1
            slot = other_slot(slot) if self.count > ATTEMPTS else slot
        return f"BOOT_IMAGE=/{slot}/vmlinuz pti=on{trial}"


NOTHING = LastBoot()


@dataclass(slots=True, kw_only=True)
class World:
    """A machine's disk over its boots."""

    meta: Path
    slots: FakeSlots
    published: list[Any] = field(default_factory=list[Any])
    lines: list[str] = field(default_factory=list[str])
    state: MemoryState = field(default_factory=MemoryState)
    kept: list[str] = field(default_factory=list[str])

    async def boot(
        self, checks: Sequence[str] = ("apid", "network"), last: LastBoot | None = NOTHING
    ) -> Upgrader:
        """Start the machine; META is read."""

        async def keep_logs(reason: str) -> None:
            await trio.lowlevel.checkpoint()
            self.kept.append(reason)

        async def list_checks() -> Sequence[str]:
            await trio.lowlevel.checkpoint()
            return checks

        self.state = MemoryState()
        store = MetaStore()
        await store.load(str(self.meta))
        upgrader = Upgrader(
            state=self.state,
            meta=store,
            slots=self.slots,
            publish=self.published.append,
            log=Log(write=self.lines.append),
            cmdline=self.slots.boot(),
            list_checks=list_checks,
            keep_logs=keep_logs,
        )
        await upgrader.begin(last)
        return upgrader


def make_world(folder: Path) -> World:
    """A machine whose META is in this folder."""
    meta = folder / "meta"
    meta.write_bytes(make_meta({12: b"kept"}).ljust(1 << 20, b"\0"))
    return World(meta=meta, slots=FakeSlots())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


async def test_back_and_forth(world: World) -> None:
    for old, new in (("A", "B"), ("B", "A"), ("A", "B")):
        upgrader = await world.boot()
        assert upgrader.running == old
        await upgrader.roll_back()
        assert await upgrader.meta.get(LABEL_TAG) == old.encode()
        upgrader = await world.boot()
        assert (upgrader.running, upgrader.current.phase) == (new, Phase.TRIAL)
        assert world.slots.default == old
        await upgrader.bless()
        assert world.slots.default == new
        assert await upgrader.meta.get(LABEL_TAG) is None
        assert await upgrader.meta.get(12) == b"kept"


async def test_what_is_installed_and_not_booted_is_taken_back(world: World) -> None:
    upgrader = await world.boot()
    await upgrader.roll_back()
    assert (upgrader.current.phase, world.slots.next) == (Phase.STAGED, "B")
    await upgrader.roll_back()
    assert (upgrader.current.phase, world.slots.next) == (Phase.REVERTED, "")
    upgrader = await world.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    assert upgrader.current.reason == "rolled back by hand"
    assert await upgrader.meta.get(LABEL_TAG) is None


async def test_a_trial_that_dies_is_reverted_by_the_next_boot(world: World) -> None:
    await (await world.boot()).roll_back()
    assert (await world.boot()).running == "B"
    upgrader = await world.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    assert "ended before its self-check" in upgrader.current.reason
    assert world.published[-1].error.message == f"reverted: {upgrader.current.reason}"
    assert "was reverted" in "".join(world.lines)
    with pytest.raises(UserError, match="which was reverted"):
        await upgrader.roll_back()


TRIAL_LOG = LastBoot(log=b"x", was_trial=True)


@pytest.mark.parametrize(
    ("last", "staged", "on_trial"),
    [
        (LastBoot(cause="kernel panic: no"), "kernel panic: no", "kernel panic: no"),
        (None, "it left no reason", "it left no reason"),
        (
            NOTHING,
            "an unknown reset or power cut, which left no trace",
            "an unknown reset or power cut during the trial",
        ),
        (
            TRIAL_LOG,
            "an unknown reset or power cut, while its kernel ran",
            "an unknown reset or power cut during the trial",
        ),
        (LastBoot(log=b"x", is_orderly=True), "its kernel left no trace", "its kernel left no trace"),
        (replace(TRIAL_LOG, is_orderly=True), "it was restarted", "it was restarted"),
    ],
)
async def test_what_the_last_boot_left_is_the_reason(
    world: World, last: LastBoot | None, staged: str, on_trial: str
) -> None:
    await (await world.boot()).roll_back()
    world.slots.boot()  # and its META is not reached
    upgrader = await world.boot(last=last)
    assert upgrader.current.reason == f"v1.15.1 in slot B did not start: {staged}"
    await upgrader.meta.delete(STATE_TAG)
    await (await world.boot()).roll_back()
    await world.boot()
    reason = (await world.boot(last=last)).current.reason
    assert reason == f"v1.15.1 in slot B ended before its self-check was done: {on_trial}"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", LIMIT),
        ("=600", 600),
        ("=1", 30),
        ("=99999999", 3600),
        ("=nan", LIMIT),
        ("=-5", LIMIT),
        ("=\u0663", LIMIT),
    ],
)
def test_the_limit_of_the_self_check_is_an_argument_of_the_kernel(text: str, limit: float) -> None:
    assert find_limit(f"pti=on talos.trial talos.trial.limit{text} quiet") == limit


async def test_a_rollback_of_a_trial_only_ends_it(world: World) -> None:
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    await upgrader.roll_back()
    upgrader = await world.boot()
    assert (upgrader.running, upgrader.current.reason) == ("A", "rolled back by hand")


@pytest.mark.parametrize("first", ["bless", "roll_back", "revert"])
@pytest.mark.parametrize("second", ["bless", "roll_back", "revert"])
async def test_two_verdicts_at_once_are_one(world: World, first: str, second: str) -> None:
    """A person rolls back while the self-check ends. A rollback after the blessing is one of its own."""
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    calls = {
        "bless": upgrader.bless,
        "roll_back": upgrader.roll_back,
        "revert": partial(upgrader.revert, "no network"),
    }
    async with trio.open_nursery() as nursery:
        nursery.start_soon(calls[first])
        await trio.lowlevel.checkpoint()
        nursery.start_soon(calls[second])
    state = upgrader.current
    assert (world.slots.default, state.phase) == {
        "bless": ("B", Phase.STAGED if second == "roll_back" else Phase.BLESSED),
        "roll_back": ("A", Phase.REVERTED),
        "revert": ("A", Phase.REVERTED),
    }[first]
    assert world.slots.next == ("A" if state.phase is Phase.STAGED else "")
    assert (await world.boot()).running == ("B" if state.phase is Phase.BLESSED else "A")


@pytest.mark.parametrize("steps", range(12))
async def test_a_caller_who_leaves_has_a_rollback_or_none(world: World, steps: int) -> None:
    """At each step, of what is to be tried, what is installed, and what is on trial."""
    for before in (Phase.IDLE, Phase.STAGED, Phase.TRIAL):
        upgrader = await world.boot()
        if before is not Phase.IDLE:
            await upgrader.roll_back()
        if before is Phase.TRIAL:
            upgrader = await world.boot()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(upgrader.roll_back)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        state = upgrader.current
        assert world.slots.next == (state.slot if state.phase is Phase.STAGED else ""), (before, state)
        await upgrader.meta.delete(STATE_TAG)
        world.slots.default, world.slots.next = "A", ""


async def test_nothing_is_installed_between_a_revert_and_the_reboot(world: World) -> None:
    """The slot that it goes back to would be written."""
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    await upgrader.revert("no network")
    with pytest.raises(UserError, match=r"v1\.15\.1 was reverted, this machine reboots \(wait until slot A"):
        upgrader.check_start()
    await upgrader.roll_back()
    assert (world.slots.default, world.slots.next) == ("A", "")
    upgrader = await world.boot()
    assert upgrader.running == "A"
    upgrader.check_start()


async def test_a_full_meta_ends_no_boot(world: World) -> None:
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    left = COPY - sum(len(value) + 64 for value in upgrader.meta.values.values())
    await upgrader.meta.set(13, bytes(left))
    with pytest.raises(UserError, match="there is room for"):
        await upgrader.revert("x" * 1000)
    for _ in range(2):
        upgrader = await world.boot(last=LastBoot(cause="kernel panic: " + "x" * 1000))
        assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
        assert "can't be kept in META" in world.lines[-2] + world.lines[-1]
    await upgrader.meta.delete(13)
    assert "ended before its self-check" in (await world.boot()).current.reason


async def test_a_power_cut_while_it_is_blessed(world: World) -> None:
    await (await world.boot()).roll_back()
    await world.boot()
    world.slots.default = "B"
    upgrader = await world.boot()
    assert (upgrader.running, upgrader.current.phase) == ("B", Phase.TRIAL)
    await upgrader.revert("no network")
    assert (await world.boot()).running == "A"


async def test_a_trial_without_meta_goes_back(world: World, autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    upgrader.has_begun, upgrader.current = False, IDLE
    watchdog, rebooted = MemoryWatchdog("/dev/watchdog0"), trio.Event()
    log = Log(write=world.lines.append)
    controller = SelfCheckController(upgrader, rebooted.set, answer, log, lambda: watchdog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [controller])
        await rebooted.wait()
        await trio.testing.wait_all_tasks_blocked()
        fed = watchdog.fed
        await trio.sleep(LIMIT)
        nursery.cancel_scope.cancel()
    assert (watchdog.armed, watchdog.fed) == (True, fed)


async def test_an_empty_slot_and_another_medium_are_refused(world: World) -> None:
    del world.slots.versions["B"]
    with pytest.raises(UserError, match="slot B holds no system"):
        await (await world.boot()).roll_back()
    upgrader = await world.boot()
    upgrader.cmdline = "console=ttyS0"
    with pytest.raises(UserError, match="was not started from a slot"):
        await upgrader.roll_back()


async def test_garbage_in_meta_is_dropped(world: World) -> None:
    upgrader = await world.boot()
    await upgrader.meta.set(STATE_TAG, b"\xff garbage")
    upgrader = await world.boot()
    assert upgrader.current.phase is Phase.IDLE
    assert await upgrader.meta.get(STATE_TAG) is None


async def _set_health(state: MemoryState, *, apid: bool, network: bool) -> None:
    await put(state, kinds.SERVICE, "apid", ServiceSpec(running=True, healthy=apid))
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=network, connectivity_ready=True))


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
    apid: bool, network: bool, reason: str, world: World, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    await _set_health(world.state, apid=apid, network=network)
    rebooted: list[float] = []
    watchdog = MemoryWatchdog("/dev/watchdog0")
    began = trio.current_time()

    def reboot() -> None:
        rebooted.append(trio.current_time() - began)

    controller = SelfCheckController(
        upgrader, reboot, answer, Log(write=world.lines.append), lambda: watchdog
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        took = trio.current_time() - began
        await trio.sleep(1)
        found = {one.id: one.spec for one in await world.state.list(kinds.DIAGNOSTIC)}
        nursery.cancel_scope.cancel()
    if reason:
        assert upgrader.current.reason == f"self-check: after {LIMIT:.0f} s: {reason}"
        assert rebooted
        assert rebooted[0] >= LIMIT  # the mock clock jumps while META is written, so there is no upper bound
        assert list(found["upgrade-reverted"].details) == [upgrader.current.reason]
        assert "/A/" in world.slots.boot()
        assert watchdog.armed, "it ends a reboot that hangs"
    else:
        assert upgrader.current.phase is Phase.BLESSED
        assert (found, rebooted, world.slots.default) == ({}, [], "B")
        assert took >= STABLE
        assert not watchdog.armed
    assert watchdog.fed


async def answer(services: Sequence[str]) -> dict[str, str]:
    """Of services that work."""
    await trio.lowlevel.checkpoint()
    assert services == ["apid"], "only services are asked"
    return {}


@pytest.mark.parametrize("silent", [1, 2, 1000])
async def test_a_service_that_hangs_after_it_was_ready_is_not_blessed(
    silent: int, world: World, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    # As the last check found it, which is made every 20 s only.
    await _set_health(world.state, apid=True, network=True)
    asked: list[float] = []
    rebooted = trio.Event()
    began = trio.current_time()

    async def ask(services: Sequence[str]) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        asked.append(trio.current_time() - began)
        return dict.fromkeys(services, "no answer within 5.0 s") if len(asked) <= silent else {}

    controller = SelfCheckController(upgrader, rebooted.set, ask, Log(write=world.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [controller])
        await _wait(lambda: upgrader.current.phase is not Phase.TRIAL)
        nursery.cancel_scope.cancel()
    assert asked[0] >= STABLE
    assert all(after - before >= STABLE for before, after in pairwise(asked))
    if silent < len(asked):
        assert (upgrader.current.phase, len(asked)) == (Phase.BLESSED, silent + 1)
    else:
        text = f"after {LIMIT:.0f} s: service apid does not answer: no answer within 5.0 s"
        assert upgrader.current.reason == f"self-check: {text}"


async def _wait(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - see below
        await trio.sleep(0.5)  # no event: the mock clock moves on only while somebody sleeps


async def test_a_default_that_does_not_boot_is_named_and_what_runs_is_kept(world: World) -> None:
    await (await world.boot()).roll_back()
    await (await world.boot()).bless()
    world.slots.default = "A"  # GRUB takes the other slot where it can't start the default
    upgrader = await world.boot()
    text = "slot B is the default, but slot A was started"
    assert upgrader.fallback.startswith(text)
    assert text in "".join(world.lines)
    world.slots.default = "B"
    await upgrader.roll_back()
    assert (world.slots.default, world.slots.next) == ("A", "B")


PANIC = LastBoot(cause="kernel panic: no")


async def test_a_default_that_does_not_come_up_is_given_up(world: World) -> None:
    await (await world.boot()).roll_back()
    await (await world.boot()).bless()
    world.slots.reads = 0
    await (await world.boot()).confirm()
    assert (world.slots.count, world.slots.reads) == (0, 1), "BOOT is mounted once to be read"
    for _ in range(ATTEMPTS):
        assert "/B/" in world.slots.boot()
    upgrader = await world.boot(last=PANIC)
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert (world.slots.default, world.slots.count) == ("A", 0)
    assert (upgrader.current.phase, upgrader.current.slot) == (Phase.REVERTED, "B")
    assert upgrader.current.reason == "slot B did not come up in 3 starts: kernel panic: no"
    assert world.published[-1].error.message == f"reverted: {upgrader.current.reason}"
    assert "was reverted" in world.lines[-1]
    assert upgrader.fallback == ""
    with pytest.raises(UserError, match=r"slot B holds v1\.15\.1, which was reverted"):
        await upgrader.roll_back()


async def test_a_power_cut_while_a_default_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.slots.default, world.slots.count = "B", ATTEMPTS
    upgrader = await world.boot(last=PANIC)

    async def cut(_: FakeSlots, __: str) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(FakeSlots, "make_default", cut)
        with pytest.raises(OSError, match="power cut"):
            await upgrader.confirm()
    upgrader = await world.boot()
    assert upgrader.running == "A", "GRUB starts what it did before"
    await upgrader.confirm()
    assert (world.slots.default, world.slots.count) == ("A", 0)
    assert "kernel panic: no" in upgrader.current.reason


async def test_after_both_slots_the_default_is_started_and_kept(world: World) -> None:
    started = [world.slots.boot()[12] for _ in range(8)]
    assert started == [*"AAABBBAA"]
    upgrader = await world.boot(last=PANIC)
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert (world.slots.default, world.slots.count, upgrader.current) == ("A", 0, IDLE)
    assert "neither slot came up in 3 starts" in world.lines[-1]


async def test_a_slot_that_a_person_chose_is_no_reason_to_give_up_the_default(world: World) -> None:
    upgrader = await world.boot()
    upgrader.cmdline = upgrader.cmdline.replace("/A/", "/B/")
    await upgrader.confirm()
    assert (world.slots.default, world.slots.count, upgrader.current) == ("A", 0, IDLE)


async def test_a_lost_config_gets_the_default_that_it_had(world: World) -> None:
    await (await world.boot()).roll_back()
    await (await world.boot()).bless()
    world.slots.is_damaged, world.slots.default = True, "A"  # what GRUB starts without a config
    upgrader = await world.boot()
    assert upgrader.running == "A"
    await upgrader.confirm()
    assert world.slots.default == "B"
    assert world.slots.versions.keys() >= {"A", "B"}
    assert world.slots.versions["B"] == "v1.15.1"
    assert "damaged and is written anew" in world.lines[-1]


async def test_a_revert_is_reported_once_after_it(world: World) -> None:
    await (await world.boot()).roll_back()
    await (await world.boot()).revert("self-check: no")
    reported: list[int] = []
    for _ in range(3):
        before = len(world.published)
        upgrader = await world.boot()
        assert upgrader.current.phase is Phase.REVERTED
        reported.append(len(world.published) - before)
        await upgrader.confirm()
    assert reported == [1, 0, 0]


async def test_a_machine_without_meta_begins(world: World) -> None:
    upgrader = await world.boot()
    upgrader.meta, upgrader.has_begun = MetaStore(), False
    assert not await upgrader.begin(None)
    assert upgrader.has_begun


@pytest.mark.parametrize("healthy", [True, False])
async def test_a_boot_is_confirmed_once_the_api_answers_or_after_a_while(
    world: World, autojump_clock: trio.testing.MockClock, *, healthy: bool
) -> None:
    del autojump_clock
    upgrader, began = await world.boot(), trio.current_time()
    assert world.slots.count == 1
    controller = BootConfirmationController(upgrader, Log(write=world.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [controller])
        await trio.sleep(5)
        assert world.slots.count == 1
        await _set_health(world.state, apid=healthy, network=False)
        await _wait(lambda: world.slots.count == 0)
        nursery.cancel_scope.cancel()
    took = trio.current_time() - began
    assert took < COME_UP_LIMIT if healthy else took >= COME_UP_LIMIT


async def test_a_trial_is_confirmed_by_its_self_check_only(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    world.slots.count = 2
    await _set_health(world.state, apid=True, network=False)
    controller = BootConfirmationController(upgrader, Log(write=world.lines.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, world.state, [controller])
        await trio.sleep(2 * COME_UP_LIMIT)
        assert world.slots.count == 2
        await upgrader.bless()
        await _wait(lambda: world.slots.count == 0)
        nursery.cancel_scope.cancel()
    assert world.slots.default == "B"
