"""Which management service a machine connects to: the config's, else the kernel argument's."""

from collections.abc import Iterable
from typing import cast

import pytest
import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.definitions.siderolink_pb2 import ConfigSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.siderolink.config import SiderolinkConfigController
from talos.machined.node.ports import services as ports
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

URL = "https://[2001:db8::1]?jointoken=join"
CONFIG = f"apiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: {URL}\n"


class Services:
    """Those of a node, of which some are started."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start_soon(self, names: Iterable[str]) -> None:
        self.started += names


async def test_the_configs_service_comes_before_the_arguments() -> None:
    state = MemoryState()
    services = Services()
    argument = "10.0.0.1:4000?jointoken=x"
    controller = SiderolinkConfigController(argument, cast("ports.Services", services), Log(write=print))
    async with running(state, controller):
        found = await wait_for(state, *ids.SIDEROLINK_CONFIG, lambda _: True)
        assert (found.spec.host, found.spec.join_token, found.spec.insecure) == ("10.0.0.1:4000", "x", True)
        # A part of a config is enough: it is what a machine in maintenance is given.
        await put(state, *ids.MACHINE_CONFIG_MAINTENANCE, MachineConfigSpec(yaml_marshalled=CONFIG.encode()))
        found = await wait_for(state, *ids.SIDEROLINK_CONFIG, lambda one: one.spec.host != "10.0.0.1:4000")
        assert found.spec == ConfigSpec(api_endpoint=URL, host="[2001:db8::1]:443", join_token="join")
        assert services.started == ["clusterd"]


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("grpc://host?jointoken=secret", "it has no port"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_named_without_its_token(argument: str, reason: str) -> None:
    state, lines, services = MemoryState(), list[str](), Services()
    log = Log(write=lines.append)
    controller = SiderolinkConfigController(argument, cast("ports.Services", services), log)
    async with running(state, controller):
        await trio.testing.wait_all_tasks_blocked()
        [line] = lines
        assert "the kernel's argument siderolink.api is not used" in line
        assert reason in line
        assert "secret" not in line
        assert await state.list(kinds.SIDEROLINK_CONFIG) == []
        assert services.started == []
