"""CertSANsController: the names and addresses for the server certificates of the node's API."""

from collections.abc import Sequence
from typing import ClassVar

from talos.api.definitions import network_pb2 as network
from talos.api.definitions import secrets_pb2 as secrets
from talos.process.names import NAME_INPUTS, make_fqdn, read_name_and_addresses
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

API_SERVICE_NAMES = ("talos", "talos.default", "talos.default.svc")
"""By which pods reach the API."""


class CertSANsController(Reconciler):
    """OSRootSecret, NodeAddress, HostnameStatus, KubernetesAccessConfig → CertSAN."""

    name: ClassVar[str] = "secrets.APICertSANsController"
    inputs = (
        Input(*ids.OS_ROOT_SECRET),
        *NAME_INPUTS,
        Input(*ids.KUBERNETES_ACCESS_CONFIG),
    )
    outputs = (Output(kinds.CERT_SAN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the names as soon as the node has an address and a name."""
        root = await runtime.get_or_none(*ids.OS_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.CERT_SAN_API)
            return
        found = await read_name_and_addresses(runtime)
        if found is None:
            return
        hostname, addresses = found
        access = await runtime.get_or_none(*ids.KUBERNETES_ACCESS_CONFIG)
        service = API_SERVICE_NAMES if access is not None and access.spec.enabled else ()
        sans = make_sans(root.spec, hostname, [prefix.ip for prefix in addresses.addresses], service)
        await runtime.put(*ids.CERT_SAN_API, sans)


def make_sans(
    root: secrets.OSRootSpec,
    hostname: network.HostnameStatusSpec,
    addresses: Sequence[bytes],
    further: Sequence[str] = (),
) -> secrets.CertSANSpec:
    """The names of a node, sorted, each once."""
    fqdn = make_fqdn(hostname)
    sans = secrets.CertSANSpec(fqdn=fqdn)
    sans.dns_names.extend(sorted({hostname.hostname, fqdn, *root.cert_sandns_names, *further}))
    # Of an IPv6 address with a zone only the address is valid in a certificate.
    for ip in sorted({address[:16] for address in [*addresses, *(ip.ip for ip in root.cert_sani_ps)]}):
        sans.i_ps.add(ip=ip)
    return sans
