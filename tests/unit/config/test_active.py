"""The machine config as controllers read it."""

from typing import ClassVar

import pytest
import trio
import trio.testing

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.active import parse_active, read_config
from talos.config.model import Config
from talos.config.problem import ConfigError
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


class Follower(Reconciler):
    """Keeps what it read."""

    name: ClassVar[str] = ""
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.HOSTNAME_STATUS))

    def __init__(self, name: str) -> None:
        self.name = name  # pyright: ignore[reportAttributeAccessIssue]
        self.found: list[Config | None] = []

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        self.found.append(await read_config(runtime))


async def apply(state: MemoryState, hostname: str) -> None:
    text = f"version: v1alpha1\nmachine:\n  network:\n    hostname: {hostname}\n"
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
    await trio.testing.wait_all_tasks_blocked()


async def test_each_version_is_parsed_once_for_all_controllers() -> None:
    state, first, second = MemoryState(), Follower("test.First"), Follower("test.Second")
    parse_active.cache_clear()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, (first, second))
        await trio.testing.wait_all_tasks_blocked()
        assert first.found == [None]
        await apply(state, "one")
        assert first.found[1] is not None
        assert first.found[1] is second.found[1]
        hostname = ids.HOSTNAME_STATUS[0].spec(hostname="other")
        await put(state, *ids.HOSTNAME_STATUS, hostname)
        await trio.testing.wait_all_tasks_blocked()
        assert first.found[2] is first.found[1]
        await apply(state, "two")
        assert first.found[3] != first.found[1]
        assert parse_active.cache_info().misses == 2
        # A config that is made anew is at version 1 again, with another text.
        await state.destroy(*ids.MACHINE_CONFIG)
        await apply(state, "three")
        assert parse_active.cache_info().misses == 3
        assert first.found[-1] is second.found[-1]
        nursery.cancel_scope.cancel()


def test_a_text_that_cannot_be_read_is_refused_every_time() -> None:
    for _ in range(2):
        with pytest.raises(ConfigError):
            parse_active(b"version: [")
