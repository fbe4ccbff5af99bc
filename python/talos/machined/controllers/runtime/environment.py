"""Environment: the variables with which PID 1 starts programs."""

from collections.abc import Mapping

from talos.api.definitions.runtime_pb2 import EnvironmentSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.machined.services.spec import ENVIRONMENT
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class EnvironmentController(Reconciler):
    """MachineConfig → Environment, with the variables that every service has.

    ``given`` are those of the kernel's arguments; the config's come after them.
    """

    name = "runtime.EnvironmentController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.ENVIRONMENT),)

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        variables = {**ENVIRONMENT, **self._given, **(effective.environment(config) if config else {})}
        lines = sorted(f"{key}={value}" for key, value in variables.items())
        await runtime.put(*ids.ENVIRONMENT, EnvironmentSpec(variables=lines))
