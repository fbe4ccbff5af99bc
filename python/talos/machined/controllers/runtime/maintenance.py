"""Access to a machine without a config: resources, and a command on the console."""

import ipaddress
from collections.abc import Sequence

from talos.api.definitions import runtime_pb2 as runtime_specs
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.machined.controllers.secrets.maintenance import is_wanted
from talos.machined.node.stage import MachineStage
from talos.pki.certificate import parse_certificate, spki_fingerprint
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.rpc.port.addresses import is_siderolink
from talos.system.logging import Log

LISTEN = ":50000"
_PORT = 50000

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ApiServiceConfigController(Reconciler):
    """MaintenanceServiceRequest, MachineConfig, SiderolinkConfig → APIServiceConfig, for apid and routerd.

    In maintenance a machine with SideroLink serves its manager alone, and no client before there is a link.
    """

    name = "runtime.APIServiceConfigController"
    inputs = (
        Input(*ids.MAINTENANCE_SERVICE_REQUEST),
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.SIDEROLINK_CONFIG),
        Input(*ids.NODE_ADDRESS_CURRENT),
    )
    outputs = (Output(kinds.API_SERVICE_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource once the mode is known."""
        is_open = await is_wanted(runtime)
        if not is_open and await runtime.get_or_none(*ids.MACHINE_CONFIG) is None:
            await runtime.remove(*ids.API_SERVICE_CONFIG)
            return
        listen = LISTEN
        if is_open and await runtime.get_or_none(*ids.SIDEROLINK_CONFIG) is not None:
            addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
            listen = find_manager_address(_ips_of(addresses.spec) if addresses else ())
        config = runtime_specs.APIServiceConfigSpec(
            listen_address=listen,
            node_routing_disabled=is_open,
            readonly_role_mode=is_open,
            skip_verifying_client_cert=is_open,
        )
        await runtime.put(*ids.API_SERVICE_CONFIG, config)


class MaintenanceConfigController(Reconciler):
    """ApiCertificate, APIServiceConfig, NodeAddress → MaintenanceServiceConfig, a command on the console."""

    name = "runtime.MaintenanceConfigController"
    inputs = (
        Input(*ids.API_CERTIFICATE),
        Input(*ids.API_SERVICE_CONFIG),
        Input(*ids.NODE_ADDRESS_CURRENT),
    )
    outputs = (Output(kinds.MAINTENANCE_SERVICE_CONFIG),)

    def __init__(self, stage: MachineStage, log: Log) -> None:
        self._stage = stage
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Log the command whenever the address or the certificate changes."""
        certificate = await runtime.get_or_none(*ids.API_CERTIFICATE)
        if certificate is None or not certificate.spec.skip_verifying_client_cert:
            self._stage.fingerprint = ""
            await runtime.remove(*ids.MAINTENANCE_SERVICE_CONFIG)
            return
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
        service = await runtime.get_or_none(*ids.API_SERVICE_CONFIG)
        listen = service.spec.listen_address if service else LISTEN
        reachable = find_reachable(_ips_of(addresses.spec) if addresses else ())
        if listen != LISTEN:
            reachable = [one for one in reachable if make_listen_address(one) == listen]
        config = runtime_specs.MaintenanceServiceConfigSpec(listen_address=listen)
        for address in reachable:
            config.reachable_addresses.add(ip=address.packed)
        await runtime.put(*ids.MAINTENANCE_SERVICE_CONFIG, config)
        fingerprint = spki_fingerprint(parse_certificate(certificate.spec.server.crt))
        self._stage.fingerprint = fingerprint
        node = str(reachable[0]) if reachable else ""
        self._log.once(make_notice(node, fingerprint), key="reachable", level="info")


def make_notice(node: str, fingerprint: str) -> str:
    """The command that applies a config to the machine."""
    if not node:
        return "this machine waits for its configuration, but has no address yet to be reached by"
    return (
        "this machine is reachable by: talosctl apply-config --insecure "
        f"--nodes {node} --cert-fingerprint {fingerprint} --file <config.yaml>"
    )


def make_listen_address(address: Address) -> str:
    """An address with the API's port."""
    return f"[{address}]:{_PORT}" if address.version == 6 else f"{address}:{_PORT}"


def find_manager_address(addresses: Sequence[bytes]) -> str:
    """Where SideroLink's manager reaches the API; empty without such an address."""
    found = (ipaddress.ip_address(address[:16]) for address in addresses if address)
    return next((make_listen_address(one) for one in found if is_siderolink(one)), "")


def _ips_of(spec: NodeAddressSpec) -> tuple[bytes, ...]:
    return tuple(prefix.ip for prefix in spec.addresses)


def find_reachable(addresses: Sequence[bytes]) -> list[Address]:
    """Addresses reachable from other machines, IPv4 first."""
    found = {ipaddress.ip_address(address[:16]) for address in addresses if address}
    usable = [address for address in found if not (address.is_loopback or address.is_link_local)]
    return sorted(usable, key=lambda address: (address.version, address.packed))
