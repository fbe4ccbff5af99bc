"""MachineTypeController: the machine's role, as a resource of its own."""

from talos.api.resource import config_pb2
from talos.config.active import read_config
from talos.config.model import MachineType
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

_VALUES = {
    MachineType.UNKNOWN: config_pb2.UNKNOWN,
    MachineType.INIT: config_pb2.INIT,
    MachineType.CONTROL_PLANE: config_pb2.CONTROL_PLANE,
    MachineType.WORKER: config_pb2.WORKER,
}


class MachineTypeController(Reconciler):
    """MachineConfig → MachineType; UNKNOWN while there is no complete config."""

    name = "config.MachineTypeController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.MACHINE_TYPE),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        machine_type = config.machine_type if config is not None else MachineType.UNKNOWN
        spec = config_pb2.MachineTypeSpec(machine_type=_VALUES[machine_type])
        await runtime.put(*ids.MACHINE_TYPE, spec)
