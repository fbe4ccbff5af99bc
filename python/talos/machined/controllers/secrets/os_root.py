"""OSRootController: the secrets of the node's API, taken from the machine config."""

import ipaddress
from typing import ClassVar

from talos.api.definitions import secrets_pb2 as secrets
from talos.config.active import read_config
from talos.config.effective import machine as effective_machine
from talos.config.effective import secrets as effective_secrets
from talos.config.model import Config
from talos.pki.names import split_names
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class OSRootController(Reconciler):
    """Config → OSRootSecret: the CA that issues, those that are accepted, the token, names."""

    name: ClassVar[str] = "secrets.RootOSController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.OS_ROOT_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, while there is a complete config."""
        async with runtime.track_outputs():
            config = await read_config(runtime)
            if config is not None and config.machine is not None:
                await runtime.put(*ids.OS_ROOT_SECRET, make_root(config))


def make_root(config: Config) -> secrets.OSRootSpec:
    """The secrets of a config. A worker's CA has no key, so it can't issue."""
    dns_names, ips = split_names(effective_machine.cert_sans(config))
    accepted = list(effective_secrets.os_accepted_cas(config))
    root = secrets.OSRootSpec(token=effective_secrets.machine_token(config), cert_sandns_names=dns_names)
    issuing = effective_secrets.os_ca(config)
    if issuing is not None and issuing.crt:
        accepted.append(issuing.crt)
        if issuing.key:
            root.issuing_ca.crt, root.issuing_ca.key = issuing.crt, issuing.key
    for crt in dict.fromkeys(accepted):
        root.accepted_c_as.add(crt=crt)
    for ip in ips:
        root.cert_sani_ps.add(ip=_packed(ip))
    return root


def _packed(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    return ip.packed
