"""SiderolinkConfig: the management service that the machine connects to."""

from typing import override

from talos.api.definitions.siderolink_pb2 import ConfigSpec
from talos.api.siderolink_endpoint import parse_siderolink
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.effective import machine as effective
from talos.machined.node.ports.node import Platform
from talos.machined.node.ports.services import Services
from talos.process.daemons import CLUSTERD
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Output, Reconciler
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline

ARGUMENT = "siderolink.api"


def read_siderolink_argument(platform: Platform) -> str:
    """The kernel's argument, which is the host's in a container and not this node's."""
    return parse_cmdline(platform.cmdline).first(ARGUMENT) if platform.has_kernel else ""


class SiderolinkConfigController(Reconciler):
    """MachineConfig, else the kernel's ``argument`` → SiderolinkConfig, if either names a service.

    clusterd, which calls it, is started: in maintenance no daemon of the cluster runs yet.
    """

    name = "siderolink.ConfigController"
    inputs = PARTIAL_CONFIG_INPUTS
    outputs = (Output(kinds.SIDEROLINK_CONFIG),)

    def __init__(self, argument: str, services: Services, log: Log) -> None:
        self._argument = argument
        self._services = services
        self._log = log
        self._is_started = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_partial_config(runtime)
        url = effective.siderolink_url(config) if config else ""
        place = "SideroLinkConfig apiUrl" if url else f"the kernel's argument {ARGUMENT}"
        async with runtime.track_outputs():
            spec = self._make(url or self._argument, place)
            if spec is not None:
                await runtime.put(*ids.SIDEROLINK_CONFIG, spec)
        if spec is not None and not self._is_started:
            self._services.start_soon([CLUSTERD.name])
            self._is_started = True

    def _make(self, url: str, place: str) -> ConfigSpec | None:
        """None for what can't be used: an argument is checked nowhere else."""
        if not url:
            return None
        try:
            return make_config(url)
        except ValueError as error:
            self._log.once(f"{place} is not used: {error}", key=ARGUMENT, level="error")
            return None


def make_config(url: str) -> ConfigSpec:
    """As the API has it. ValueError."""
    endpoint = parse_siderolink(url)
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return ConfigSpec(
        api_endpoint=url,
        host=f"{host}:{endpoint.port}",
        join_token=endpoint.join_token,
        insecure=endpoint.is_plain,
        tunnel=endpoint.has_tunnel,
    )
