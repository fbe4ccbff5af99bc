"""Kernel parameters: configured values as specs, their result as statuses."""

import trio

from talos.api.definitions.runtime_pb2 import KernelParamSpecSpec, KernelParamStatusSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.machined.node.sysctls import PREFIX, SYSFS_PREFIX, KernelParams, ParamResult
from talos.resource import ids, kinds
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    Output,
    Reconciler,
)
from talos.system.logging import Log


class KernelParamConfigController(Reconciler):
    """MachineConfig → KernelParamSpec."""

    name = "runtime.KernelParamConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.KERNEL_PARAM_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the configured parameters."""
        config = await read_config(runtime)
        wanted: dict[str, str] = {}
        if config is not None:
            wanted |= {PREFIX + key: value for key, value in effective.sysctls(config).items()}
            wanted |= {SYSFS_PREFIX + key: value for key, value in effective.sysfs(config).items()}
        async with runtime.track_outputs():
            for key, value in wanted.items():
                await runtime.put(kinds.KERNEL_PARAM_SPEC, key, KernelParamSpecSpec(value=value))


class KernelParamDefaultsController(Controller):
    """The machine's own parameters → KernelParamDefaultSpec; they don't change."""

    name = "runtime.KernelParamDefaultsController"
    outputs = (Output(kinds.KERNEL_PARAM_DEFAULT_SPEC),)

    def __init__(self, params: KernelParams) -> None:
        self._params = params

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write all of them once."""
        for key, value in self._params.defaults.items():
            await runtime.put(kinds.KERNEL_PARAM_DEFAULT_SPEC, key, KernelParamSpecSpec(value=value))


class KernelParamSpecController(Reconciler):
    """KernelParamSpec and the machine's own parameters → the kernel, KernelParamStatus."""

    name = "runtime.KernelParamSpecController"
    inputs = (Input(kinds.KERNEL_PARAM_SPEC),)
    outputs = (Output(kinds.KERNEL_PARAM_STATUS),)

    def __init__(self, params: KernelParams, log: Log) -> None:
        self._params = params
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Set everything, and restore what is not configured any more."""
        specs = await runtime.list(kinds.KERNEL_PARAM_SPEC)
        users = {one.id: one.spec.value for one in specs}
        results = await trio.to_thread.run_sync(self._params.apply, users)
        self._report([result for result in results if result.key in users])
        async with runtime.track_outputs():
            for result in results:
                status = KernelParamStatusSpec(
                    current=result.current, default=result.default, unsupported=result.unsupported
                )
                await runtime.put(kinds.KERNEL_PARAM_STATUS, result.key, status)

    def _report(self, results: list[ParamResult]) -> None:
        for result in results:
            if not result.reason:
                self._log.forget(result.key)
                continue
            name = result.key.removeprefix(PREFIX)
            text = f"kernel parameter {name}: can't be {result.wanted}: {result.reason.lower()}"
            self._log.once(text, key=result.key, level="error")
