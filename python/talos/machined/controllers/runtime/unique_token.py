"""UniqueMachineToken: by which a management service recognizes the machine, whatever its UUID."""

from typing import override

from talos.api.definitions.runtime_pb2 import UniqueMachineTokenSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.effective import machine as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

META_KEY = "0x10"


class UniqueMachineTokenController(Reconciler):
    """META's value, else that of the config → UniqueMachineToken, which may be empty.

    There is none before META is read: without its token a service would take the machine for a new one.
    """

    name = "runtime.UniqueMachineTokenController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(*ids.META_LOAD), Input(kinds.META_KEY, id=META_KEY))
    outputs = (Output(kinds.UNIQUE_MACHINE_TOKEN),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        loaded = await runtime.get_or_none(*ids.META_LOAD)
        if loaded is None or not loaded.spec.done:
            return
        kept = await runtime.get_or_none(kinds.META_KEY, META_KEY)
        token = kept.spec.value if kept else ""
        if not token and (config := await read_partial_config(runtime)):
            token = effective.unique_machine_token(config)
        await runtime.put(*ids.UNIQUE_MACHINE_TOKEN, UniqueMachineTokenSpec(token=token))
