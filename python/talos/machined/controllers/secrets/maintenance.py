"""The certificates of a machine without a config: an authority of this boot, the names it vouches for."""

import ipaddress
from typing import ClassVar

from talos.api.definitions import secrets_pb2 as secrets
from talos.machined.controllers.secrets.cert_sans import ACCUMULATIVE, CURRENT, HOSTNAME
from talos.machined.controllers.secrets.os_root import ACTIVE_CONFIG
from talos.machined.controllers.secrets.renewal import to_proto
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

MAINTENANCE = "maintenance"
"""The id of the request for maintenance, of its authority, and of its names."""
COMMON_NAME = "maintenance-service.talos.dev"
LOOPBACK = ("127.0.0.1", "::1")


async def is_wanted(runtime: ControllerRuntime) -> bool:
    """Whether strangers may talk to the machine: it was asked for, and nobody has configured it yet."""
    if await runtime.get_or_none(kinds.MACHINE_CONFIG, ACTIVE_CONFIG) is not None:
        return False
    return await runtime.get_or_none(kinds.MAINTENANCE_SERVICE_REQUEST, MAINTENANCE) is not None


class MaintenanceRootController(Reconciler):
    """MaintenanceServiceRequest → MaintenanceRootSecret, a new authority at every boot."""

    name: ClassVar[str] = "secrets.MaintenanceRootController"
    inputs = (
        Input(kinds.MAINTENANCE_SERVICE_REQUEST, id=MAINTENANCE),
        Input(kinds.MACHINE_CONFIG, id=ACTIVE_CONFIG),
    )
    outputs = (Output(kinds.MAINTENANCE_ROOT_SECRET),)

    def __init__(self) -> None:
        self._pair: PemPair | None = None

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource while the machine is in maintenance."""
        if not await is_wanted(runtime):
            await runtime.remove(kinds.MAINTENANCE_ROOT_SECRET, MAINTENANCE)
            return
        pair = self._pair
        if pair is None:
            pair = self._pair = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem
        await runtime.modify(
            kinds.MAINTENANCE_ROOT_SECRET, MAINTENANCE, lambda spec: spec.ca.CopyFrom(to_proto(pair))
        )


class MaintenanceCertSANsController(Reconciler):
    """MaintenanceRootSecret, NodeAddress, HostnameStatus → CertSAN.

    It does not wait for addresses: without them the machine is there for itself alone.
    """

    name: ClassVar[str] = "secrets.MaintenanceCertSANsController"
    inputs = (
        Input(kinds.MAINTENANCE_ROOT_SECRET, id=MAINTENANCE),
        Input(kinds.NODE_ADDRESS),
        Input(kinds.HOSTNAME_STATUS, id=HOSTNAME),
    )
    outputs = (Output(kinds.CERT_SAN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the names as they are known so far."""
        if await runtime.get_or_none(kinds.MAINTENANCE_ROOT_SECRET, MAINTENANCE) is None:
            await runtime.remove(kinds.CERT_SAN, MAINTENANCE)
            return
        addresses = await runtime.get_or_none(kinds.NODE_ADDRESS, ACCUMULATIVE)
        addresses = addresses or await runtime.get_or_none(kinds.NODE_ADDRESS, CURRENT)
        hostname = await runtime.get_or_none(kinds.HOSTNAME_STATUS, HOSTNAME)
        ips = {ipaddress.ip_address(text).packed for text in LOOPBACK}
        ips |= {prefix.ip[:16] for prefix in addresses.spec.addresses} if addresses else set()
        wanted = secrets.CertSANSpec(fqdn=COMMON_NAME)
        for ip in sorted(ips):
            wanted.i_ps.add(ip=ip)
        if hostname is not None and hostname.spec.hostname:
            name, domain = hostname.spec.hostname, hostname.spec.domainname
            wanted.dns_names.extend(sorted({name, f"{name}.{domain}" if domain else name}))
        await runtime.modify(kinds.CERT_SAN, MAINTENANCE, lambda spec: spec.CopyFrom(wanted))
