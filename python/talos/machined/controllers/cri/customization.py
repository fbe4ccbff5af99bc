"""CustomizationConfig: the user's changes to containerd's configuration."""

from talos.api.definitions.cri_pb2 import CustomizationConfigSpec
from talos.config.active import read_config
from talos.config.documents.cri.customization import CRICustomizationConfig
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class CustomizationConfigController(Reconciler):
    """MachineConfig → CustomizationConfig, one for each document."""

    name = "cri.CustomizationConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.CUSTOMIZATION_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what there is, and remove the others."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            for document in config.find_all(CRICustomizationConfig) if config else ():
                spec = CustomizationConfigSpec(content=document.content or "")
                await runtime.put(kinds.CUSTOMIZATION_CONFIG, document.name, spec)
