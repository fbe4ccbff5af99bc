"""The variables of services: what every one has, the kernel's arguments, the config."""

from tests.unit.machined.controllers.running import running

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.runtime.environment import EnvironmentController
from talos.machined.node.resources import read_variables
from talos.machined.services.spec import ENVIRONMENT, read_own_variables
from talos.resource import ids
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState

CONFIG = (
    "version: v1alpha1\nmachine: {env: {A: main, B: main}}\n"
    "---\napiVersion: v1alpha1\nkind: EnvironmentConfig\nvariables: {B: document}\n"
)


async def test_variables_of_arguments_come_before_those_of_the_config() -> None:
    state = MemoryState()
    async with running(state, EnvironmentController({"A": "argument", "C": "argument", "HOME": "/x"})):
        await wait_for(state, *ids.ENVIRONMENT, lambda one: "A=argument" in one.spec.variables)
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG.encode()))
        await wait_for(state, *ids.ENVIRONMENT, lambda one: "A=main" in one.spec.variables)
        own = {"A": "main", "B": "document", "C": "argument", "HOME": "/x"}
        assert await read_variables(state) == {**ENVIRONMENT, **own}
        assert await read_own_variables(state) == own
