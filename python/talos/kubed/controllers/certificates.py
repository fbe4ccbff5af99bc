"""The certificates of the control plane, and the kubeconfigs of its programs."""

from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_address

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.definitions.secrets_pb2 import (
    CertSANSpec,
    KubernetesCertsSpec,
    KubernetesDynamicCertsSpec,
    KubernetesRootSpec,
)
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.kubernetes.access import parse_kubeconfig
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import join_certificates
from talos.pki.names import split_names
from talos.process.names import NAME_INPUTS, make_fqdn, read_name_and_addresses
from talos.process.renewal import RenewingReconciler, is_clock_right, is_current
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

LIFETIME = timedelta(days=365)
"""As upstream; renewed when half of it is over."""
MASTERS = "system:masters"
FRONT_PROXY = "front-proxy-client"
ADMIN = "talos:admin"
USERS = {
    "controller_manager_kubeconfig": ("system:kube-controller-manager", ()),
    "scheduler_kubeconfig": ("system:kube-scheduler", ()),
    "localhost_admin_kubeconfig": (ADMIN, (MASTERS,)),
}
"""For each kubeconfig of the secret, who its user is: name and groups."""


class CertSANsController(Reconciler):
    """KubernetesRootSecret, names and addresses → CertSAN: what the API server is called."""

    name = "secrets.KubernetesCertSANsController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        *NAME_INPUTS,
    )
    outputs = (Output(kinds.CERT_SAN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource as soon as the node has a name and an address."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.CERT_SAN_KUBERNETES)
            return
        found = await read_name_and_addresses(runtime)
        if found is None:
            return
        hostname, addresses = found
        names = list(dict.fromkeys((hostname.hostname, make_fqdn(hostname))))
        ips = [prefix.ip[:16] for prefix in addresses.addresses]
        await runtime.put(*ids.CERT_SAN_KUBERNETES, make_sans(root.spec, names, ips))


def make_sans(root: KubernetesRootSpec, names: Sequence[str], ips: Sequence[bytes]) -> CertSANSpec:
    """The names of the API server, sorted, each once."""
    host = root.endpoint.full_path.partition("://")[2].rstrip("/").rsplit(":", 1)[0].strip("[]")
    service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    own = [*service, f"kubernetes.default.svc.{root.dns_domain}", "localhost"]
    dns_names, addresses = split_names([host, *root.cert_sa_ns, *own, *names])
    packed = {ip.packed for ip in addresses} | {ip_address("127.0.0.1").packed, *ips}
    packed |= {ip.ip for ip in root.api_server_ips}
    sans = CertSANSpec(fqdn=names[-1], dns_names=sorted(set(dns_names)))
    for ip in sorted(packed):
        sans.i_ps.add(ip=ip)
    return sans


class DynamicCertificatesController(RenewingReconciler):
    """KubernetesRootSecret, CertSAN → KubernetesDynamicCert."""

    name = "secrets.KubernetesDynamicCertsController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.CERT_SAN_KUBERNETES),
        Input(*ids.TIME_STATUS),
    )
    outputs = (Output(kinds.KUBERNETES_DYNAMIC_CERT),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Issue what is missing, due, or for other names."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.KUBERNETES_DYNAMIC_CERT)
            return
        sans = await runtime.get_or_none(*ids.CERT_SAN_KUBERNETES)
        if sans is None or not await is_clock_right(runtime):
            return
        await runtime.modify(*ids.KUBERNETES_DYNAMIC_CERT, lambda spec: issue(spec, root.spec, sans.spec))


def issue(spec: KubernetesDynamicCertsSpec, root: KubernetesRootSpec, sans: CertSANSpec) -> None:
    """Replace those certificates that can't stay."""
    authority = load_authority(root)
    ips = [ip_address(ip.ip) for ip in sans.i_ps]
    server = spec.api_server
    if not is_current(server, [authority.certificate], sans.dns_names, ips):
        made = authority.issue(
            common_name="kube-apiserver",
            organizations=["kube-master"],
            dns_names=sans.dns_names,
            ips=ips,
            ttl=LIFETIME,
            usages=Usage.SERVER,
            key_encipherment=True,
        )
        server.crt, server.key = made.crt, made.key
    renew_client(spec.api_server_kubelet_client, authority, "apiserver-kubelet-client", [MASTERS])
    if root.aggregator_ca.key:
        pair = root.aggregator_ca
        aggregator = CertificateAuthority.from_pem(pair.crt, pair.key, where="cluster.aggregatorCA")
        renew_client(spec.front_proxy, aggregator, FRONT_PROXY, [])


def load_authority(root: KubernetesRootSpec) -> CertificateAuthority:
    """The authority that issues."""
    return CertificateAuthority.from_pem(root.issuing_ca.crt, root.issuing_ca.key, where="cluster.ca")


def renew_client(
    pair: PEMEncodedCertificateAndKey,
    authority: CertificateAuthority,
    common_name: str,
    organizations: Sequence[str],
) -> None:
    """Issue a client's certificate unless it can stay."""
    if not is_current(pair, [authority.certificate]):
        made = authority.issue(
            common_name=common_name,
            organizations=organizations,
            ttl=LIFETIME,
            usages=Usage.CLIENT,
            key_encipherment=True,
        )
        pair.crt, pair.key = made.crt, made.key


class KubernetesSecretsController(RenewingReconciler):
    """KubernetesRootSecret → KubernetesSecret: the kubeconfigs of this node's control plane."""

    name = "secrets.KubernetesController"
    inputs = (Input(*ids.KUBERNETES_ROOT_SECRET), Input(*ids.TIME_STATUS))
    outputs = (Output(kinds.KUBERNETES_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; certificates stay until they are due, whatever process issued them."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.KUBERNETES_SECRET)
            return
        if not await is_clock_right(runtime):
            return
        authority, spec = load_authority(root.spec), KubernetesCertsSpec()
        former = await runtime.get_or_none(*ids.KUBERNETES_SECRET)
        for name, (user, groups) in USERS.items():
            pair = find_pair(getattr(former.spec, name)) if former else PEMEncodedCertificateAndKey()
            renew_client(pair, authority, user, groups)
            setattr(spec, name, make_kubeconfig(root.spec, user, pair))
        await runtime.put(*ids.KUBERNETES_SECRET, spec)


def find_pair(kubeconfig: str) -> PEMEncodedCertificateAndKey:
    """The certificate in a kubeconfig of ours."""
    access = parse_kubeconfig(kubeconfig)
    return PEMEncodedCertificateAndKey(crt=access.certificate, key=access.key)


def make_kubeconfig(root: KubernetesRootSpec, user: str, pair: PEMEncodedCertificateAndKey) -> str:
    """A kubeconfig for a program on this node."""
    return format_kubeconfig(
        Kubeconfig(
            server=root.local_endpoint.full_path,
            authority=join_certificates(root.accepted_c_as),
            cluster=root.name,
            user=user,
            certificate=pair.crt,
            key=pair.key,
        )
    )
