"""What a node is called and where it is reached, for its certificates and for other nodes."""

from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec
from talos.process.addresses import read_addresses
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input

NAME_INPUTS = (
    Input(*ids.HOSTNAME_STATUS),
    Input(*ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S),
    Input(*ids.MACHINE_CONFIG),
)
"""What :func:`read_name_and_addresses` reads."""


def make_fqdn(hostname: HostnameStatusSpec) -> str:
    """The host name with its domain, if it has one."""
    return f"{hostname.hostname}.{hostname.domainname}" if hostname.domainname else hostname.hostname


async def read_name_and_addresses(
    runtime: ControllerRuntime,
) -> tuple[HostnameStatusSpec, NodeAddressSpec] | None:
    """The name and addresses for the node's certificates; None until it has both.

    All addresses that the node ever had: a certificate must not lose one that a client uses. Those of pods
    and services are no way to the node: it gets and loses them with the network of Kubernetes.
    """
    hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
    addresses = await read_addresses(runtime, ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S)
    if hostname is None or not hostname.spec.hostname or addresses is None or not addresses.addresses:
        return None
    return hostname.spec, addresses
