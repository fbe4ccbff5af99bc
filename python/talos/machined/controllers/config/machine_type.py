"""MachineTypeController: the machine's role, as a resource of its own."""

from talos.api.resource import config_pb2
from talos.config.model import MachineType
from talos.config.read.loader import load
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

ACTIVE = "v1alpha1"
ID = "machine-type"

_VALUES = {
    MachineType.UNKNOWN: config_pb2.UNKNOWN,
    MachineType.INIT: config_pb2.INIT,
    MachineType.CONTROL_PLANE: config_pb2.CONTROL_PLANE,
    MachineType.WORKER: config_pb2.WORKER,
}


class MachineTypeController(Reconciler):
    """MachineConfig → MachineType; UNKNOWN while there is no complete config."""

    name = "config.MachineTypeController"
    inputs = (Input(kinds.MACHINE_CONFIG, id=ACTIVE),)
    outputs = (Output(kinds.MACHINE_TYPE),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        resource = await runtime.get_or_none(kinds.MACHINE_CONFIG, ACTIVE)
        machine_type = load(resource.spec.yaml_marshalled).machine_type if resource else MachineType.UNKNOWN

        def change(spec: config_pb2.MachineTypeSpec) -> None:
            spec.machine_type = _VALUES[machine_type]

        await runtime.modify(kinds.MACHINE_TYPE, ID, change)
