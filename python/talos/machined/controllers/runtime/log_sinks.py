"""Where the kernel's log and events are sent; and logd, which runs while there is a destination."""

from typing import override

from talos.api.common.common_pb2 import URL
from talos.api.definitions.runtime_pb2 import EventSinkConfigSpec, KmsgLogConfigSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_config, read_partial_config
from talos.config.effective import machine as effective
from talos.machined.node.ports.services import Services
from talos.process.daemons import LOGD
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.proc.cmdline import parse_cmdline

KERNEL_LOG_ARGUMENT = "talos.logging.kernel"
EVENTS_ARGUMENT = "talos.events.sink"
SINK_INPUTS = (*PARTIAL_CONFIG_INPUTS, Input(*ids.KERNEL_CMDLINE))


async def _read_argument(runtime: ControllerRuntime, name: str) -> str:
    """A kernel argument, which is the host's in a container and not there."""
    cmdline = await runtime.get_or_none(*ids.KERNEL_CMDLINE)
    return (parse_cmdline(cmdline.spec.cmdline).first(name) or "") if cmdline else ""


class KmsgLogConfigController(Reconciler):
    """MachineConfig, the kernel's argument → KmsgLogConfig, if there is a destination."""

    name = "runtime.KmsgLogConfigController"
    inputs = SINK_INPUTS
    outputs = (Output(ids.KMSG_LOG_CONFIG[0]),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        argument = await _read_argument(runtime, KERNEL_LOG_ARGUMENT)
        config = await read_partial_config(runtime)
        configured = effective.kernel_log_destinations(config) if config else ()
        urls = [argument] if argument else []
        urls += [url for url in configured if url != argument]
        async with runtime.track_outputs():
            if urls:
                spec = KmsgLogConfigSpec(destinations=[URL(full_path=url) for url in urls])
                await runtime.put(*ids.KMSG_LOG_CONFIG, spec)


class EventsSinkConfigController(Reconciler):
    """MachineConfig, the kernel's argument → EventSinkConfig, if there is a sink."""

    name = "runtime.EventsSinkConfigController"
    inputs = SINK_INPUTS
    outputs = (Output(ids.EVENT_SINK_CONFIG[0]),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_partial_config(runtime)
        endpoint = effective.event_sink(config) if config else ""
        endpoint = endpoint or await _read_argument(runtime, EVENTS_ARGUMENT)
        async with runtime.track_outputs():
            if endpoint:
                await runtime.put(*ids.EVENT_SINK_CONFIG, EventSinkConfigSpec(endpoint=endpoint))


class LogServiceController(Reconciler):
    """MachineConfig, KmsgLogConfig, EventSinkConfig → logd runs, or not."""

    name = "runtime.LogServiceController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.KMSG_LOG_CONFIG), Input(*ids.EVENT_SINK_CONFIG))

    def __init__(self, services: Services) -> None:
        self._services = services
        self._is_started = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime)
        is_wanted = (
            bool(config and effective.log_destinations(config))
            or await runtime.get_or_none(*ids.KMSG_LOG_CONFIG) is not None
            or await runtime.get_or_none(*ids.EVENT_SINK_CONFIG) is not None
        )
        if is_wanted and not self._is_started:
            self._services.start_soon([LOGD.name])
            self._is_started = True
        elif self._is_started and not is_wanted:
            await self._services.halt(LOGD.name)
            self._is_started = False
