"""Upgrade and Rollback: the installer's stream, and what is refused before anything is begun."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from talos.api.definitions import enums_pb2
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.api.machine import lifecycle_pb2, machine_pb2
from talos.api.rpc import Code, RpcError
from talos.machined.api import upgrade as upgrade_calls
from talos.machined.api.upgrade import LINES, run_installer
from talos.resource import kinds
from talos.resource.changes import put
from talos.system.errors import UserError
from talos.upgrade.session import Steps, Upgrades
from talos.upgrade.state import BUSY, IDLE, Upgrade, stage
from talos.upgrade.state import start as begin_trial

from .conftest import LOCKED_ACTOR, Caller, FakePower


async def stream(failure: Exception | None = None, lines: int = 2) -> tuple[list[str], int]:
    """The lines of an installer that ends like this, and its exit code."""
    found: list[lifecycle_pb2.LifecycleServiceInstallProgress] = []

    async def install(report: Callable[[str], None]) -> None:
        for number in range(lines):
            report(f"line {number}")
        if failure is not None:
            raise failure

    async def send(progress: lifecycle_pb2.LifecycleServiceInstallProgress) -> None:
        found.append(progress)

    await run_installer(install, send, nullcontext())
    kinds = [progress.WhichOneof("response") for progress in found]
    assert kinds == ["message"] * (len(found) - 1) + ["exit_code"]
    return [progress.message for progress in found[:-1]], found[-1].exit_code


async def test_the_installers_lines_come_before_its_exit_code() -> None:
    assert await stream() == (["line 0\n", "line 1\n"], 0)


@pytest.mark.parametrize(
    ("failure", "line", "code"),
    [
        (
            UserError("is not signed", where="release signature"),
            "refused: release signature: is not signed",
            2,
        ),
        (RpcError(Code.UNAVAILABLE, "etcd is away"), "refused: etcd is away", 5),
        (OSError(28, "No space left on device"), "failed: [Errno 28] No space left on device", 6),
    ],
)
async def test_the_last_line_has_the_reason(failure: Exception, line: str, code: int) -> None:
    lines, found = await stream(failure)
    assert (lines[-1], found) == (f"{line}\n", code)


async def test_an_installer_does_not_wait_for_its_watchers() -> None:
    lines, code = await stream(lines=10 * LINES)
    assert lines == [f"line {number}\n" for number in range(1 + LINES)]  # the reader waited for the first
    assert code == 0


async def test_the_reason_reaches_a_watcher_that_missed_lines() -> None:
    lines, code = await stream(OSError(28, "No space left on device"), lines=10 * LINES)
    assert (lines[-1], code) == ("failed: [Errno 28] No space left on device\n", 6)


async def test_a_machine_that_runs_from_an_iso_is_not_rolled_back(metal: Caller) -> None:
    with pytest.raises(UserError, match="was not started from a slot"):
        await metal.call("Rollback", machine_pb2.RollbackRequest())
    assert isinstance(metal.node.power, FakePower)
    assert metal.node.power.begun == []


async def test_one_call_at_a_time_installs(metal: Caller) -> None:
    """Also while the first one still looks at its release: a second one would give back its lock in etcd."""
    volume = VolumeStatusSpec(phase=enums_pb2.VOLUME_PHASE_READY)
    await put(metal.node.state, kinds.VOLUME_STATUS, "META", volume)
    with metal.node.upgrades.claim():
        for method, request in (
            ("Upgrade", machine_pb2.UpgradeRequest(image="installer")),
            ("Rollback", machine_pb2.RollbackRequest()),
        ):
            with pytest.raises(RpcError, match=BUSY) as refused:
                await metal.call(method, request)
            assert refused.value.code is Code.FAILED_PRECONDITION
        upgrade = lifecycle_pb2.LifecycleServiceUpgradeRequest()
        with pytest.raises(RpcError, match=BUSY):
            await metal.read("Upgrade", upgrade, "machine.LifecycleService")
    with pytest.raises(UserError, match="was not started from a slot"):
        await metal.call("Rollback", machine_pb2.RollbackRequest())


STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")


@pytest.mark.parametrize(
    ("state", "calls"),
    [(IDLE, ["EndUpgrade"]), (STAGED, []), (begin_trial(STAGED, running="B", cause=""), [])],
)
async def test_what_has_no_verdict_keeps_the_lock_when_the_next_upgrade_fails(
    metal: Caller, monkeypatch: pytest.MonkeyPatch, state: Upgrade, calls: list[str]
) -> None:
    ended: list[str] = []

    async def free() -> None:
        await trio.lowlevel.checkpoint()
        ended.append("EndUpgrade")

    monkeypatch.setattr(metal.node.upgrade_lock, "free", free)
    metal.node.upgrades.current = state
    with pytest.raises(OSError, match="full"):
        async with upgrade_calls.ending_upgrade(metal.node):
            raise OSError("full")
    assert ended == calls


async def test_an_unknown_reboot_mode_is_refused(metal: Caller) -> None:
    with pytest.raises(RpcError, match="unknown reboot mode 7"):
        await metal.call("Upgrade", machine_pb2.UpgradeRequest(reboot_mode=7))  # pyright: ignore[reportArgumentType]


async def test_a_reboot_into_a_release_is_one_of_an_upgrade(metal: Caller) -> None:
    await metal.call("Reboot", machine_pb2.RebootRequest())
    metal.node.upgrades.current = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")
    await metal.call("Reboot", machine_pb2.RebootRequest())
    assert isinstance(metal.node.power, FakePower)
    assert metal.node.power.begun == ["reboot DEFAULT", "reboot DEFAULT into another release"]


async def test_a_node_takes_the_lock_before_it_goes_away_to_try_a_release(
    metal: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it had it: the release may have been written hours ago."""
    refusals: list[Exception | None] = []

    async def take(report: Callable[[str], None]) -> None:
        del report
        await trio.lowlevel.checkpoint()
        if failure := refusals.pop(0):
            raise failure

    freed: list[None] = []

    async def free() -> None:
        await trio.lowlevel.checkpoint()
        freed.append(None)

    monkeypatch.setattr(metal.node.upgrade_lock, "take", take)
    monkeypatch.setattr(metal.node.upgrade_lock, "free", free)
    power = metal.node.power
    assert isinstance(power, FakePower)
    await metal.call("Reboot", machine_pb2.RebootRequest())
    assert len(power.begun) == 1, "a reboot into the same system calls no member"
    metal.node.upgrades.current = STAGED
    refusals[:] = [RpcError(Code.FAILED_PRECONDITION, "cp-1 is being upgraded and holds the lock"), None]
    with pytest.raises(
        RpcError, match=r"v1\.15\.1 can't be tried now: cp-1 is being .* --mode force"
    ) as refused:
        await metal.call("Reboot", machine_pb2.RebootRequest())
    assert refused.value.code is Code.FAILED_PRECONDITION
    assert (len(power.begun), len(freed)) == (1, 1), "it is in no other node's way"
    await metal.call("Reboot", machine_pb2.RebootRequest())
    assert (refusals, len(freed)) == ([], 1)
    await metal.call("Reboot", machine_pb2.RebootRequest(mode=machine_pb2.RebootRequest.FORCE))
    power.locked = True
    [message] = (await metal.call("Reboot", machine_pb2.RebootRequest())).messages
    assert message.actor_id == LOCKED_ACTOR, "etcd is stopped by the sequence that runs"
    assert power.begun[1:] == ["reboot DEFAULT into another release", "reboot FORCE into another release"]


@pytest.mark.parametrize(
    ("request_", "is_locked"),
    [
        (machine_pb2.RebootRequest(), True),
        (machine_pb2.RebootRequest(mode=machine_pb2.RebootRequest.FORCE), False),
        (machine_pb2.UpgradeRequest(), True),
        (machine_pb2.UpgradeRequest(force=True), False),
        (machine_pb2.UpgradeRequest(preserve=True), False),
    ],
)
async def test_the_lock_is_held_until_services_stop_unless_by_force(
    metal: Caller, monkeypatch: pytest.MonkeyPatch, request_: Any, *, is_locked: bool
) -> None:
    async def succeed(*_: object, **__: object) -> Any:
        await trio.lowlevel.checkpoint()
        return succeed

    @asynccontextmanager
    async def open_instance(*_: object, **__: object) -> AsyncGenerator[Any]:
        await trio.lowlevel.checkpoint()
        yield SimpleNamespace(containerd=None, root="")

    for name in ("find_image", "_load", "_check_installed"):
        monkeypatch.setattr(upgrade_calls, name, succeed)
    monkeypatch.setattr(upgrade_calls, "open_instance", open_instance)
    monkeypatch.setattr(Upgrades, "prepare", succeed)
    monkeypatch.setattr(metal.node.upgrade_lock, "take", succeed)
    metal.node.upgrades.current = STAGED
    if isinstance(request_, machine_pb2.UpgradeRequest):
        request_.image = "installer:v1.15.0"
        await metal.call("Upgrade", request_)
        with pytest.raises(RpcError, match=BUSY):
            await metal.call("Upgrade", request_)
    else:
        await metal.call("Reboot", request_)
    power = metal.node.power
    assert isinstance(power, FakePower)
    assert power.lock is (metal.node.upgrade_lock if is_locked else None)
    power.stay()
    with metal.node.upgrades.claim():
        pass  # a node that stays up can be upgraded


@pytest.mark.parametrize("failure", [None, UserError("is not signed", where="release signature")])
async def test_steps_are_events_of_a_sequence(failure: UserError | None) -> None:
    published: list[Any] = []
    steps = Steps(published.append)
    with suppress(UserError):
        async with steps.sequence("upgrade"), steps.phase("verify", "verifyRelease"):
            if failure:
                raise failure
    found = [type(event).__name__ for event in published]
    if failure is None:
        assert found == [
            "SequenceEvent",
            "PhaseEvent",
            "TaskEvent",
            "TaskEvent",
            "PhaseEvent",
            "SequenceEvent",
        ]
        assert published[-1].action == machine_pb2.SequenceEvent.STOP
    else:
        assert found == ["SequenceEvent", "PhaseEvent", "TaskEvent", "SequenceEvent"]
        assert published[-1].error.message == "release signature: is not signed"


async def test_what_is_checked_before_the_installer_begins(metal: Caller) -> None:
    request = lifecycle_pb2.LifecycleServiceInstallRequest(
        destination=lifecycle_pb2.InstallDestination(disk="/dev/vda")
    )
    with pytest.raises(RpcError, match="Talos is not installed") as refused:
        await metal.call("Upgrade", machine_pb2.UpgradeRequest(image="installer"))
    assert refused.value.code is Code.FAILED_PRECONDITION
    async with metal.node.upgrades.lock():
        with pytest.raises(RpcError, match=BUSY):
            await metal.read("Install", request, "machine.LifecycleService")
    nowhere = lifecycle_pb2.LifecycleServiceInstallRequest()
    with pytest.raises(RpcError, match=r"destination\.disk is required") as refused:
        await metal.read("Install", nowhere, "machine.LifecycleService")
    assert refused.value.code is Code.INVALID_ARGUMENT
    await put(
        metal.node.state, kinds.VOLUME_STATUS, "META", VolumeStatusSpec(phase=enums_pb2.VOLUME_PHASE_READY)
    )
    with pytest.raises(RpcError, match="Talos is already installed") as refused:
        await metal.read("Install", request, "machine.LifecycleService")
    assert refused.value.code is Code.ALREADY_EXISTS
