"""EtcdCertificatesController: the certificates of etcd and of its clients on this node."""

from collections.abc import Sequence
from datetime import timedelta

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.definitions.network_pb2 import HostnameStatusSpec
from talos.api.definitions.secrets_pb2 import EtcdCertsSpec
from talos.clusterd.controllers.etcd_config import Address, addresses_of
from talos.pki.authority import CertificateAuthority, Usage
from talos.process.names import NAME_INPUTS, make_fqdn, read_name_and_addresses
from talos.process.renewal import is_clock_right, is_current
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

LIFETIME = timedelta(hours=87600)
"""As upstream: they are made anew at every boot and when a name or the authority changes."""
LOCAL_NAMES = ("localhost",)
LOCAL_ADDRESSES = ("127.0.0.1", "::1")
ADMIN, API_SERVER = "talos", "kube-apiserver"


class EtcdCertificatesController(Reconciler):
    """EtcdRootSecret, EtcdSpec, names and addresses → EtcdSecret."""

    name = "secrets.EtcdController"
    inputs = (
        Input(*ids.ETCD_ROOT_SECRET),
        *NAME_INPUTS,
        Input(*ids.TIME_STATUS),
    )
    outputs = (Output(kinds.ETCD_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Issue what is missing or is for other names; a wrong clock would make it invalid."""
        root = await runtime.get_or_none(*ids.ETCD_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.ETCD_SECRET)
            return
        found = await read_name_and_addresses(runtime)
        if found is None or not await is_clock_right(runtime):
            return
        hostname, addresses = found
        pair, names, ips = root.spec.etcd_ca, _names(hostname), addresses_of(addresses)
        await runtime.modify(*ids.ETCD_SECRET, lambda spec: issue(spec, pair, names, ips))


def _names(hostname: HostnameStatusSpec) -> list[str]:
    fqdn = make_fqdn(hostname)
    return [hostname.hostname, *([fqdn] if fqdn != hostname.hostname else [])]


def issue(
    spec: EtcdCertsSpec, root: PEMEncodedCertificateAndKey, names: Sequence[str], ips: Sequence[Address]
) -> None:
    """Replace those certificates that are not for these names or not by this authority."""
    authority = CertificateAuthority.from_pem(root.crt, root.key, where="cluster.etcd.ca")
    local = [*ips, *LOCAL_ADDRESSES]
    for pair, common_name, usages, dns_names, addresses in (
        (spec.etcd, names[0], Usage.BOTH, [*names, *LOCAL_NAMES], local),
        (spec.etcd_peer, names[0], Usage.BOTH, [*names], [*ips]),
        (spec.etcd_admin, ADMIN, Usage.CLIENT, [], []),
        (spec.etcd_api_server, API_SERVER, Usage.CLIENT, [], []),
    ):
        if not is_current(pair, [authority.certificate], dns_names, addresses):
            made = authority.issue(
                common_name=common_name,
                dns_names=dns_names,
                ips=addresses,
                ttl=LIFETIME,
                usages=usages,
                key_encipherment=True,
            )
            pair.crt, pair.key = made.crt, made.key
