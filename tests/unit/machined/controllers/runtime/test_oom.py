"""A node under memory pressure ends a group, records it, and rests when there is none."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.unit.machined.controllers.running import running
from tests.unit.machined.node.test_oom import make_group, make_tree

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.read.loader import load
from talos.machined.controllers.runtime import oom as module
from talos.machined.controllers.runtime.oom import OOMController, make_settings
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.pressure import PressureTrigger, parse_pressure

HEAD = b"version: v1alpha1\nmachine: {type: worker}\n---\napiVersion: v1alpha1\nkind: OOMConfig\n"


class Trigger(PressureTrigger):
    """Events by hand."""

    def __init__(self) -> None:
        self.events, self._taken = trio.open_memory_channel[None](10)
        self.is_closed = False

    async def wait(self) -> None:
        await self._taken.receive()

    def close(self) -> None:
        self.is_closed = True


class Node:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "groups"
        make_tree(self.root)
        self.pressure = folder / "memory"
        self.pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        self.meminfo = folder / "meminfo"
        self.set_free(10)
        self.trigger, self.state, self.killed = Trigger(), MemoryState(), list[str]()
        self.log: list[str] = []

    def set_free(self, kilobytes: int) -> None:
        self.meminfo.write_text(f"MemTotal: 1000 kB\nMemFree: {kilobytes} kB\n")

    async def kill(self, group: Path) -> Sequence[str]:
        self.killed.append(group.name)
        return ["/bin/hog --fast"]

    def make_controller(self) -> OOMController:
        return OOMController(
            Log(write=self.log.append),
            root=self.root,
            pressure=self.pressure,
            meminfo=self.meminfo,
            open_trigger=lambda: self.trigger,
            kill=self.kill,
        )


async def test_a_group_ends_when_the_systems_own_processes_stand_still(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)
    async with running(node.state, node.make_controller()):
        await trio.sleep(60)
        assert node.killed == [], "nothing is measured without pressure"
        make_tree(node.root, avg10=20.0, total=1000)
        await node.trigger.events.send(None)
        await trio.sleep(0.1)
        make_tree(node.root, avg10=20.0, total=9000)
        action = await wait_for(node.state, kinds.OOM_ACTION, "0", lambda _: True)
        assert node.killed == ["podb"]
        assert (action.spec.processes, action.spec.score) == (["/bin/hog --fast"], 9 << 20)
        assert json.loads(action.spec.trigger_context)["qos_memory_full_avg10"]["4"] == 20.0
        await trio.sleep(60)
        assert node.killed == ["podb"], "it rests when no more pressure is told"


async def test_pressure_that_remains_while_memory_is_free_ends_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)
    node.set_free(500)
    async with running(node.state, node.make_controller()):
        for total in range(1000, 20_000, 1000):
            make_tree(node.root, avg10=20.0, total=total)
            await node.trigger.events.send(None)
            await trio.sleep(0.5)
        assert node.killed == []
        node.set_free(10)
        make_tree(node.root, avg10=20.0, total=20_000)
        await wait_for(node.state, kinds.OOM_ACTION, "0", lambda _: True)


async def test_a_trigger_of_the_user_is_looked_at_without_pressure(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)
    text = HEAD + (
        b"triggerExpression: 'qos_memory_current[Besteffort] > 0.0 && "
        b'time_since_trigger > duration("1s")\'\n'
        b'cgroupRankingExpression: "class == Burstable ? 1.0 : 0.0"\nsampleInterval: 600ms\n'
    )
    await put(node.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))
    async with running(node.state, node.make_controller()):
        await wait_for(node.state, kinds.OOM_ACTION, str(module.KEPT_ACTIONS + 2), lambda _: True)
        await trio.sleep(0.05)
    assert set(node.killed) == {"podc"}
    assert len(await node.state.list(kinds.OOM_ACTION)) == module.KEPT_ACTIONS


async def test_nothing_more_ends_while_a_group_is_ending(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)
    make_group(node.root, "kubepods/besteffort/podb", cgroup_events="populated 1")
    text = HEAD + b'triggerExpression: "true"\n'
    await put(node.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))
    async with running(node.state, node.make_controller()):
        await trio.sleep(module.END_TIMEOUT / 2)
        assert node.killed == ["podb"]
        make_group(node.root, "kubepods/besteffort/podb", cgroup_events="populated 0")
        await trio.sleep(2 * module.SAMPLE_INTERVAL)
        assert node.killed == ["podb", "poda"]
        await trio.sleep(2 * module.END_TIMEOUT)
        assert len(node.killed) > 2, "a process that does not end is not waited for any longer"


@pytest.mark.parametrize("rule", ["true", 'time_since_trigger > duration("3s")'])
async def test_a_trigger_that_ends_nothing_is_recorded_until_it_passes(
    rule: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)
    expressions = f"triggerExpression: 'qos_memory_current[Besteffort] > 0.0 && {rule}'\n"
    expressions += 'cgroupRankingExpression: "class == Burstable && memory_current.hasValue() ? 1.0 : 0.0"\n'
    for pod in ("podc", "podd"):
        (node.root / "kubepods/burstable" / pod / "memory.current").unlink()
    await put(node.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=HEAD + expressions.encode()))

    async def count() -> int:
        return len(await node.state.list(kinds.OOM_ACTION))

    async with running(node.state, node.make_controller()):
        await trio.sleep(60)
        assert (await count(), len(node.log)) == (1, 1)
        make_group(node.root, "kubepods/besteffort", memory_current=0)
        await trio.sleep(2 * module.QUIET_PERIOD)
        make_group(node.root, "kubepods/besteffort", memory_current=1)
        await trio.sleep(60)
        assert (await count(), len(node.log)) == (2, 2)
        make_group(node.root, "kubepods/burstable/podc", memory_current=1)
        await wait_for(node.state, kinds.OOM_ACTION, "2", lambda _: True)
        assert node.killed == ["podc"], "it does end what can end later"
        (node.root / "kubepods/burstable/podc/memory.current").unlink()
        await trio.sleep(60)
        assert (await count(), len(node.log)) == (4, 4)


async def test_a_group_that_is_gone_stops_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node = Node(tmp_path)

    async def fail(group: Path) -> Sequence[str]:
        raise FileNotFoundError(2, "No such file or directory", str(group))

    node.kill = fail
    text = HEAD + b'triggerExpression: "true"\n'
    await put(node.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))
    async with running(node.state, node.make_controller()):
        await trio.sleep(5)
    assert any("could not be ended" in line for line in node.log)
    assert node.trigger.is_closed


def test_a_mistake_in_an_expression_leaves_the_defaults() -> None:
    log: list[str] = []
    config = load(HEAD + b'triggerExpression: "nonsense"\nstrictCgroupClassOrdering: false\n')
    settings = make_settings(config, Log(write=log.append))
    assert (settings.is_custom, settings.is_strict) == (False, False)
    assert "not used" in log[0]


async def test_the_kernel_takes_the_trigger() -> None:
    try:
        trigger = PressureTrigger(module.STALL, module.WINDOW)
    except OSError as error:
        pytest.skip(f"this kernel tells nothing: {error.strerror}")
    with trio.move_on_after(0.05):
        await trigger.wait()
    trigger.close()


def test_a_pressure_file_is_read_by_name() -> None:
    found = parse_pressure("some avg10=1.50 avg60=0.00 avg300=0.00 total=12\nfull avg10=nan total=7\n")
    assert found["some_avg10"] == 1.5
    assert found["full_total"] == 7
