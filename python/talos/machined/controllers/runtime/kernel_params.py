"""Kernel parameters: what the config wants as specs, what became of them as statuses."""

import trio

from talos.api.definitions.runtime_pb2 import KernelParamSpecSpec, KernelParamStatusSpec
from talos.config import effective
from talos.config.read.loader import load
from talos.machined.controllers.config.machine_type import ACTIVE
from talos.machined.node.sysctls import PREFIX, SYSFS_PREFIX, KernelParams, ParamResult
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log


class KernelParamConfigController(Reconciler):
    """MachineConfig → KernelParamSpec."""

    name = "runtime.KernelParamConfigController"
    inputs = (Input(kinds.MACHINE_CONFIG, id=ACTIVE),)
    outputs = (Output(kinds.KERNEL_PARAM_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what the user wants."""
        resource = await runtime.get_or_none(kinds.MACHINE_CONFIG, ACTIVE)
        config = load(resource.spec.yaml_marshalled) if resource is not None else None
        wanted: dict[str, str] = {}
        if config is not None:
            wanted |= {PREFIX + key: value for key, value in effective.sysctls(config).items()}
            wanted |= {SYSFS_PREFIX + key: value for key, value in effective.sysfs(config).items()}
        async with runtime.track_outputs():
            for key, value in wanted.items():

                def change(spec: KernelParamSpecSpec, value: str = value) -> None:
                    spec.value = value

                await runtime.modify(kinds.KERNEL_PARAM_SPEC, key, change)


class KernelParamSpecController(Reconciler):
    """KernelParamSpec and the machine's own parameters → the kernel, KernelParamStatus."""

    name = "runtime.KernelParamSpecController"
    inputs = (Input(kinds.KERNEL_PARAM_SPEC),)
    outputs = (Output(kinds.KERNEL_PARAM_STATUS),)

    def __init__(self, params: KernelParams, log: Log) -> None:
        self._params = params
        self._log = log
        self._told: set[tuple[str, str]] = set()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Set everything, and take back what is not wanted any more."""
        specs = await runtime.list(kinds.KERNEL_PARAM_SPEC)
        users = {one.id: one.spec.value for one in specs}
        results = await trio.to_thread.run_sync(self._params.apply, users)
        self._tell([result for result in results if result.key in users and result.reason])
        async with runtime.track_outputs():
            for result in results:
                wanted = KernelParamStatusSpec(
                    current=result.current, default=result.default, unsupported=result.unsupported
                )

                def change(spec: KernelParamStatusSpec, wanted: KernelParamStatusSpec = wanted) -> None:
                    spec.CopyFrom(wanted)

                await runtime.modify(kinds.KERNEL_PARAM_STATUS, result.key, change)

    def _tell(self, failed: list[ParamResult]) -> None:
        """Each failure of a user's parameter once."""
        for result in failed:
            if (result.key, result.wanted) not in self._told:
                name = result.key.removeprefix(PREFIX)
                self._log.error(f"kernel parameter {name}: can't be {result.wanted}: {result.reason.lower()}")
        self._told = {(result.key, result.wanted) for result in failed}
