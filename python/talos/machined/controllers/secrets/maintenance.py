"""The certificates of a machine without a config: an authority of this boot, and their names."""

import ipaddress
from typing import ClassVar

from talos.api.definitions import secrets_pb2 as secrets
from talos.machined.controllers.secrets.certificates import to_proto
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

COMMON_NAME = "maintenance-service.talos.dev"
LOOPBACK = ("127.0.0.1", "::1")


async def is_wanted(runtime: ControllerRuntime) -> bool:
    """Whether the machine serves unauthenticated callers: in maintenance, while it has no config."""
    if await runtime.get_or_none(*ids.MACHINE_CONFIG) is not None:
        return False
    return await runtime.get_or_none(*ids.MAINTENANCE_SERVICE_REQUEST) is not None


class MaintenanceRootController(Reconciler):
    """MaintenanceServiceRequest → MaintenanceRootSecret, a new authority at every boot."""

    name: ClassVar[str] = "secrets.MaintenanceRootController"
    inputs = (
        Input(*ids.MAINTENANCE_SERVICE_REQUEST),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.MAINTENANCE_ROOT_SECRET),)

    def __init__(self) -> None:
        self._pair: PemPair | None = None

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource while the machine is in maintenance."""
        if not await is_wanted(runtime):
            await runtime.remove(*ids.MAINTENANCE_ROOT_SECRET)
            return
        pair = self._pair
        if pair is None:
            pair = self._pair = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem
        root = secrets.MaintenanceRootSpec(ca=to_proto(pair))
        await runtime.put(*ids.MAINTENANCE_ROOT_SECRET, root)


class MaintenanceCertSANsController(Reconciler):
    """MaintenanceRootSecret, NodeAddress, HostnameStatus → CertSAN.

    It does not wait for addresses: without them only the machine itself can connect.
    """

    name: ClassVar[str] = "secrets.MaintenanceCertSANsController"
    inputs = (
        Input(*ids.MAINTENANCE_ROOT_SECRET),
        Input(kinds.NODE_ADDRESS),
        Input(*ids.HOSTNAME_STATUS),
    )
    outputs = (Output(kinds.CERT_SAN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the names known so far."""
        if await runtime.get_or_none(*ids.MAINTENANCE_ROOT_SECRET) is None:
            await runtime.remove(*ids.CERT_SAN_MAINTENANCE)
            return
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_ACCUMULATIVE)
        addresses = addresses or await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        ips = {ipaddress.ip_address(text).packed for text in LOOPBACK}
        ips |= {prefix.ip[:16] for prefix in addresses.spec.addresses} if addresses else set()
        sans = secrets.CertSANSpec(fqdn=COMMON_NAME)
        for ip in sorted(ips):
            sans.i_ps.add(ip=ip)
        if hostname is not None and hostname.spec.hostname:
            name, domain = hostname.spec.hostname, hostname.spec.domainname
            sans.dns_names.extend(sorted({name, f"{name}.{domain}" if domain else name}))
        await runtime.put(*ids.CERT_SAN_MAINTENANCE, sans)
