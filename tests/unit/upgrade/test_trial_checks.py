"""The config's checks of a trial: before an upgrade, on trial, and their reasons."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.unit.upgrade.test_releases import make_release

from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.definitions.network_pb2 import ProbeStatusSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.rpc import Code, RpcError
from talos.config.effective.trial_checks import MAX_TIMEOUT, TrialCheck
from talos.machined.controllers.runtime.self_check import CHECK_TIMEOUT, MAX_STABLE, SelfCheckController
from talos.machined.controllers.runtime.trial_probes import TrialProbeController
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, modify, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.upgrade.release.features import SLOTS, TRIAL_CHECKS
from talos.upgrade.session import Upgrades
from talos.upgrade.state import Phase
from talos.upgrade.trial_checks import LAST_TIMEOUT, MAX_SHOWN, READY_TIMEOUT, find_failing

from .machine import Machine

URL = "http://127.0.0.1:8080/ready"
HTTP = f"apiVersion: v1alpha1\nkind: TrialCheckConfig\nname: shop\nhttp: {{url: '{URL}'}}\n"
CEL = "apiVersion: v1alpha1\nkind: TrialCheckConfig\nname: ready\ncel: node.node_ready\n"
OTHER = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n"
REFUSED = f'trial check "shop": {URL}: HTTP status 503'
FEATURES = [SLOTS, TRIAL_CHECKS, "config.HostnameConfig"]


async def configure(state: MemoryState, *documents: str) -> None:
    """Have a config be in force."""
    text = "---\n".join(documents).encode()
    await modify(state, *ids.MACHINE_CONFIG, lambda spec: setattr(spec, "yaml_marshalled", text))


class Network:
    """What networkd finds: a service that answers with an error until it is ready."""

    def __init__(self, state: MemoryState, *, ready: bool = True) -> None:
        self.state, self.ready = state, ready
        self.hangs, self.failing = False, ""
        self.probed, self.seen = 0, set[str]()

    async def run(self) -> None:
        """Probe what is to be probed, as networkd does."""
        while True:
            specs = {spec.id for spec in await self.state.list(kinds.PROBE_SPEC)}
            for status in await self.state.list(kinds.PROBE_STATUS):
                if status.id not in specs:
                    await destroy_if_present(self.state, kinds.PROBE_STATUS, status.id)
            # The results of what succeeded before it hung stay until the time limit is over.
            for probe in () if self.hangs else specs:
                self.probed += 1
                self.seen.add(probe)
                error = "" if self.ready and probe != self.failing else "HTTP status 503"
                spec = ProbeStatusSpec(success=not error, last_error=error)
                await put(self.state, kinds.PROBE_STATUS, probe, spec)
            await trio.sleep(1)


@asynccontextmanager
async def running(upgrader: Upgrades, network: Network) -> AsyncGenerator[None]:
    """Probes are run while they are needed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, upgrader.state, [TrialProbeController(upgrader)])
        nursery.start_soon(network.run)
        yield
        nursery.cancel_scope.cancel()


async def stage(machine: Machine, folder: Path, *documents: str) -> None:
    """Install a release on a machine whose checks hold."""
    upgrader = await machine.boot(checks=("apid",))
    await configure(machine.state, *documents)
    await put(machine.state, kinds.NODE_STATUS, "a", NodeStatusSpec(node_ready=True))
    async with running(upgrader, Network(machine.state)):
        await (await upgrader.prepare(make_release(folder, features=FEATURES)))(machine.lines.append)


async def answer(services: Sequence[str]) -> dict[str, str]:
    """Of services that work."""
    await trio.lowlevel.checkpoint()
    assert services == ["apid"], "a trial check is no service"
    return {}


@asynccontextmanager
async def on_trial(
    machine: Machine, *documents: str, ready: bool
) -> AsyncGenerator[tuple[Upgrades, Network]]:
    """The trial of what is staged, with services that are healthy."""
    upgrader = await machine.boot()
    network = Network(machine.state, ready=ready)
    await configure(machine.state, *documents)
    await put(machine.state, kinds.SERVICE, "apid", ServiceSpec(running=True, healthy=True))
    controller = SelfCheckController(upgrader, lambda: None, answer, Log(write=machine.lines.append))
    async with running(upgrader, network), trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, [controller])
        yield upgrader, network
        nursery.cancel_scope.cancel()


async def wait_for_verdict(upgrader: Upgrades) -> None:
    """Wait until it is no trial any more."""
    while upgrader.current.phase is Phase.TRIAL:  # noqa: ASYNC110 - the mock clock moves on while a task sleeps
        await trio.sleep(0.5)
    await trio.testing.wait_all_tasks_blocked()


async def list_details(state: MemoryState) -> list[str]:
    """What the diagnostics show."""
    found = await state.list(kinds.DIAGNOSTIC)
    return [detail for diagnostic in found for detail in diagnostic.spec.details]


async def test_a_check_that_holds_keeps_a_release_and_is_probed_on_trial_only(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, OTHER, HTTP)
    async with on_trial(machine, OTHER, HTTP, ready=True) as (upgrader, network):
        assert upgrader.current.checks == ("apid", "trial-check:shop")
        await wait_for_verdict(upgrader)
        assert upgrader.current.phase is Phase.BLESSED
        assert network.probed
        assert await machine.state.list(kinds.PROBE_SPEC) == []
        network.probed = 0
        await trio.sleep(60)
        assert not network.probed


async def test_a_check_that_holds_later_is_waited_for(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, HTTP)
    async with on_trial(machine, HTTP, ready=False) as (upgrader, network):
        await trio.sleep(4 * MAX_STABLE)
        assert upgrader.current.phase is Phase.TRIAL
        assert await list_details(machine.state) == [REFUSED]
        network.ready, began = True, trio.current_time()
        await wait_for_verdict(upgrader)
    assert upgrader.current.phase is Phase.BLESSED
    assert trio.current_time() - began >= MAX_STABLE, "it has to stay"


async def test_a_check_that_never_holds_is_the_reason_of_a_revert(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, HTTP)
    async with on_trial(machine, HTTP, ready=False) as (upgrader, _):
        await wait_for_verdict(upgrader)
        reason = f"self-check: after {CHECK_TIMEOUT:.0f} s: {REFUSED}"
        assert upgrader.current.reason == reason
        assert await list_details(machine.state) == [reason]
    assert any("reverted" in line and URL in line for line in machine.lines), "the console has it"
    events = [str(getattr(event, "error", "")) for event in machine.published]
    assert any("reverted: " in event and URL in event for event in events)


async def test_a_check_that_hangs_before_the_verdict_is_not_kept_by_its_last_success(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, OTHER, HTTP)
    async with on_trial(machine, OTHER, HTTP, ready=True) as (upgrader, network):
        await trio.sleep(MAX_STABLE - 2)
        network.hangs = True
        await trio.sleep(LAST_TIMEOUT + 8)
        assert upgrader.current.phase is Phase.TRIAL
        assert (await machine.state.get(kinds.PROBE_STATUS, "trial:shop")).spec.success
        assert await list_details(machine.state) == [f'trial check "shop": {URL}: not probed yet']
        network.hangs, began = False, trio.current_time()
        await wait_for_verdict(upgrader)
        assert upgrader.current.phase is Phase.BLESSED
        assert trio.current_time() - began >= MAX_STABLE, "it has to stay"
        assert await machine.state.list(kinds.PROBE_SPEC) == [], "the last ones are removed, too"


async def test_a_check_that_fails_at_the_last_probe_alone_begins_anew(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, OTHER, HTTP)
    async with on_trial(machine, OTHER, HTTP, ready=True) as (upgrader, network):
        network.failing = "trial:shop:1"
        await wait_for_verdict(upgrader)
        assert upgrader.current.phase is Phase.BLESSED
        assert trio.current_time() >= 2 * MAX_STABLE
    assert "trial:shop:2" in network.seen


async def test_a_check_that_is_removed_on_trial_does_not_count_any_more(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, OTHER, HTTP)
    async with on_trial(machine, OTHER, HTTP, ready=False) as (upgrader, _):
        await trio.sleep(4 * MAX_STABLE)
        await configure(machine.state, OTHER)
        await wait_for_verdict(upgrader)
        assert await machine.state.list(kinds.PROBE_SPEC) == []
    assert upgrader.current.phase is Phase.BLESSED


async def test_a_check_that_was_added_after_the_release_was_written_does_not_count(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, OTHER)
    async with on_trial(machine, OTHER, HTTP, ready=False) as (upgrader, _):
        await wait_for_verdict(upgrader)
    assert upgrader.current.phase is Phase.BLESSED


async def test_a_trial_without_its_config_is_not_kept(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, HTTP)
    for text, reason in (("kind: [", "trial checks can't be read"), (None, "there is no config")):
        machine.slots.next = "B"
        async with on_trial(machine, HTTP, ready=True) as (upgrader, _):
            if text is None:
                await destroy_if_present(machine.state, *ids.MACHINE_CONFIG)
            else:
                await configure(machine.state, text)
            await trio.sleep(4 * MAX_STABLE)
            assert upgrader.current.phase is Phase.TRIAL
            assert any(reason in detail for detail in await list_details(machine.state))


async def test_an_expression_follows_the_node(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    await stage(machine, tmp_path, CEL)
    async with on_trial(machine, CEL, ready=True) as (upgrader, _):
        await trio.sleep(4 * MAX_STABLE)
        assert await list_details(machine.state) == ['trial check "ready": node.node_ready is false']
        await put(machine.state, kinds.NODE_STATUS, "a", NodeStatusSpec(node_ready=True))
        await wait_for_verdict(upgrader)
    assert upgrader.current.phase is Phase.BLESSED


async def test_an_upgrade_is_refused_while_a_check_does_not_hold(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    upgrader, network = await machine.boot(), Network(machine.state, ready=False)
    await configure(machine.state, HTTP, CEL)
    lines: list[str] = []
    began = trio.current_time()
    async with running(upgrader, network):
        with pytest.raises(RpcError) as refused:
            await upgrader.prepare(make_release(tmp_path, features=FEATURES), report=lines.append)
        await trio.sleep(2)
        assert await machine.state.list(kinds.PROBE_SPEC) == []
    assert trio.current_time() - began >= READY_TIMEOUT > MAX_TIMEOUT
    assert refused.value.code is Code.FAILED_PRECONDITION
    both = f'{REFUSED}; trial check "ready": node.node_ready is false'
    remedy = "(mend what it checks, or remove the TrialCheckConfig)"
    assert refused.value.message == f"fails already before the upgrade: {both} {remedy}"
    assert lines == [f"waiting for up to 15 s: {both}"]
    assert (upgrader.current.phase, machine.slots.next) == (Phase.IDLE, "")


async def test_an_upgrade_waits_for_a_check_for_a_moment(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    upgrader, network = await machine.boot(), Network(machine.state, ready=False)
    await configure(machine.state, HTTP)
    async with running(upgrader, network), trio.open_nursery() as nursery:

        async def recover() -> None:
            is_shown = False
            while not is_shown:
                await trio.sleep(0.5)
                is_shown = any("waiting for up to 15 s" in line for line in machine.lines)
            network.ready = True

        nursery.start_soon(recover)
        await upgrader.prepare(make_release(tmp_path, features=FEATURES))


async def test_by_force_what_does_not_hold_does_not_count(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    upgrader, network = await machine.boot(checks=("apid",)), Network(machine.state)
    await configure(machine.state, HTTP, CEL)
    async with running(upgrader, network):
        release = make_release(tmp_path, features=FEATURES)
        await (await upgrader.prepare(release, force=True))(machine.lines.append)
    assert upgrader.current.checks == ("apid", "trial-check:shop")
    assert any("does not count in the trial" in line and "node.node_ready" in line for line in machine.lines)


async def test_a_release_that_has_no_such_checks_gets_none(
    machine: Machine, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    upgrader = await machine.boot(checks=("apid",))
    await configure(machine.state, HTTP)
    async with running(upgrader, Network(machine.state)):
        release = make_release(tmp_path, features=[SLOTS])
        await (await upgrader.prepare(release, force=True))(machine.lines.append)
    assert upgrader.current.checks == ("apid",), "it could not read another record"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('services["apid"].healthy && !("b" in services)', ""),
        ('services.all(name, services[name].running) && probes["tcp:a:1"].success', ""),
        ('node.labels["zone"] == "a" && node.labels.exists(key, key == "zone")', ""),
        ("!network.connectivity_ready && machine.status.unmet_conditions.size() == 0", ""),
        ('"trial:shop" in probes', '"trial:shop" in probes is false'),
        ('services["b"].healthy', "services[\"b\"].healthy: can't be computed: the map has no 'b'"),
        ("1 / 0 == 1", "1 / 0 == 1: can't be computed: "),
        ('int(double("inf")) == 1', "can't be computed: "),
        ("nothing", "nothing: character 1: nothing is not known here"),
        (" ||\n".join(["network.connectivity_ready"] * 70), "…"),
    ],
)
async def test_an_expression_and_its_reason(machine: Machine, expression: str, reason: str) -> None:
    await machine.boot()
    state = machine.state
    await put(state, kinds.SERVICE, "apid", ServiceSpec(running=True, healthy=True))
    await put(state, kinds.NODE_STATUS, "a", NodeStatusSpec(labels={"zone": "a"}))
    for probe in ("tcp:a:1", "trial:shop"):
        await put(state, kinds.PROBE_STATUS, probe, ProbeStatusSpec(success=True))
    found = await find_failing(state, [TrialCheck(name="a", expression=expression)])
    assert found.keys() == ({"a"} if reason else set())
    text = found.get("a", "")
    assert reason in text
    assert "\n" not in text
    assert len(text) < 3 * MAX_SHOWN


async def test_what_a_server_causes_is_one_short_line(machine: Machine) -> None:
    await machine.boot()
    check = TrialCheck(name="a", endpoint="b:1")
    assert await find_failing(machine.state, [check]) == {"a": 'trial check "a": b:1: not probed yet'}
    await put(machine.state, kinds.PROBE_STATUS, "trial:a", ProbeStatusSpec(last_error="x\ny" * 9999))
    (text,) = (await find_failing(machine.state, [check])).values()
    assert text.startswith('trial check "a": b:1: x yx y')
    assert "\n" not in text
    assert len(text) < 2 * MAX_SHOWN


async def test_a_rollback_is_a_rescue_and_counts_none(machine: Machine) -> None:
    upgrader = await machine.boot(checks=("apid",))
    await configure(machine.state, HTTP)
    await upgrader.roll_back()
    assert upgrader.current.checks == ("apid",)
