"""How a machine without a config is reached: as resources, and as a line for whoever reads the console."""

import ipaddress
from collections.abc import Sequence

from talos.api.definitions import runtime_pb2 as runtime_specs
from talos.machined.controllers.secrets.cert_sans import API, CURRENT
from talos.machined.controllers.secrets.maintenance import MAINTENANCE, is_wanted
from talos.machined.controllers.secrets.os_root import ACTIVE_CONFIG
from talos.machined.node.stage import MachineStage
from talos.pki.certificate import parse_certificate, spki_fingerprint
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log

LISTEN = ":50000"


class ApiServiceConfigController(Reconciler):
    """MaintenanceServiceRequest, MachineConfig → APIServiceConfig: how apid and routerd serve."""

    name = "runtime.APIServiceConfigController"
    inputs = (
        Input(kinds.MAINTENANCE_SERVICE_REQUEST, id=MAINTENANCE),
        Input(kinds.MACHINE_CONFIG, id=ACTIVE_CONFIG),
    )
    outputs = (Output(kinds.API_SERVICE_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource once it is known which way it is."""
        is_open = await is_wanted(runtime)
        if not is_open and await runtime.get_or_none(kinds.MACHINE_CONFIG, ACTIVE_CONFIG) is None:
            await runtime.remove(kinds.API_SERVICE_CONFIG, API)
            return
        wanted = runtime_specs.APIServiceConfigSpec(
            listen_address=LISTEN,
            node_routing_disabled=is_open,
            readonly_role_mode=is_open,
            skip_verifying_client_cert=is_open,
        )
        await runtime.modify(kinds.API_SERVICE_CONFIG, API, lambda spec: spec.CopyFrom(wanted))


class MaintenanceConfigController(Reconciler):
    """ApiCertificate, NodeAddress → MaintenanceServiceConfig; says what to type."""

    name = "runtime.MaintenanceConfigController"
    inputs = (
        Input(kinds.API_CERTIFICATE, id=API),
        Input(kinds.NODE_ADDRESS, id=CURRENT),
    )
    outputs = (Output(kinds.MAINTENANCE_SERVICE_CONFIG),)

    def __init__(self, stage: MachineStage, log: Log) -> None:
        self._stage = stage
        self._log = log
        self._told = ("", "")

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Tell every time that another address is there."""
        certificate = await runtime.get_or_none(kinds.API_CERTIFICATE, API)
        if certificate is None or not certificate.spec.skip_verifying_client_cert:
            self._stage.fingerprint = ""
            await runtime.remove(kinds.MAINTENANCE_SERVICE_CONFIG, MAINTENANCE)
            return
        addresses = await runtime.get_or_none(kinds.NODE_ADDRESS, CURRENT)
        reachable = find_reachable([prefix.ip for prefix in addresses.spec.addresses] if addresses else [])
        wanted = runtime_specs.MaintenanceServiceConfigSpec(listen_address=LISTEN)
        for address in reachable:
            wanted.reachable_addresses.add(ip=address.packed)
        await runtime.modify(
            kinds.MAINTENANCE_SERVICE_CONFIG, MAINTENANCE, lambda spec: spec.CopyFrom(wanted)
        )
        fingerprint = spki_fingerprint(parse_certificate(certificate.spec.server.crt))
        self._stage.fingerprint = fingerprint
        node = str(reachable[0]) if reachable else ""
        if (node, fingerprint) != self._told:
            self._told = (node, fingerprint)
            self._log.info(make_notice(node, fingerprint))


def make_notice(node: str, fingerprint: str) -> str:
    """What to type to give the machine its config."""
    if not node:
        return "this machine waits for its configuration, but has no address yet to be reached by"
    return (
        "this machine is reachable by: talosctl apply-config --insecure "
        f"--nodes {node} --cert-fingerprint {fingerprint} --file <config.yaml>"
    )


def find_reachable(
    addresses: Sequence[bytes],
) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Addresses that others can use, IPv4 first."""
    found = {ipaddress.ip_address(address[:16]) for address in addresses if address}
    usable = [address for address in found if not (address.is_loopback or address.is_link_local)]
    return sorted(usable, key=lambda address: (address.version, address.packed))
