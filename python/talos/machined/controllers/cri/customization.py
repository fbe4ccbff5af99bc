"""CustomizationConfig: the user's changes to containerd's configuration."""

from talos.api.definitions.cri_pb2 import CustomizationConfigSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class CustomizationConfigController(Reconciler):
    """MachineConfig → CustomizationConfig, one for each that the config names."""

    name = "cri.CustomizationConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.CUSTOMIZATION_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what there is, and remove the others."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            for name, content in effective.cri_customizations(config).items() if config else ():
                spec = CustomizationConfigSpec(content=content)
                await runtime.put(kinds.CUSTOMIZATION_CONFIG, name, spec)
