"""StaticHost: names of the machine config that resolve without DNS."""

from ipaddress import ip_address

from talos.api.addresses import make_ip
from talos.api.definitions.network_pb2 import StaticHostSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.effective import network as effective
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output, Reconciler
from talos.system.logging import Log


class StaticHostController(Reconciler):
    """MachineConfig → StaticHost, one for each name with all of its addresses."""

    name = "network.StaticHostController"
    inputs = PARTIAL_CONFIG_INPUTS
    outputs = (Output(kinds.STATIC_HOST),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config; an entry of the main document may hold anything, and is checked here."""
        config = await read_partial_config(runtime)
        hosts: dict[str, StaticHostSpec] = {}
        for text, names in effective.static_hosts(config) if config else ():
            try:
                address = make_ip(ip_address(text))
            except ValueError:
                self._log.once(f"static host {text!r} ignored: no IP address")
                continue
            for name in names:
                if not is_host_name(name):
                    self._log.once(f"static host {text}: name {name!r} ignored: not a host name")
                    continue
                spec = hosts.setdefault(name, StaticHostSpec())
                if address not in spec.addresses:
                    spec.addresses.append(address)
        async with runtime.track_outputs():
            for name, spec in hosts.items():
                await runtime.put(kinds.STATIC_HOST, name, spec)


def is_host_name(text: str) -> bool:
    """Whether a name can stand in /etc/hosts, where blanks, # and control characters end it."""
    return 0 < len(text) <= 253 and text.isascii() and text.isprintable() and not set(text) & set(" #")
