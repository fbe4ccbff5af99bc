"""The certificates of the control plane, and the kubeconfigs of its programs."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.definitions.secrets_pb2 import (
    CertSANSpec,
    KubernetesCertsSpec,
    KubernetesDynamicCertsSpec,
    KubernetesRootSpec,
)
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import has_names, is_signed_by, parse_certificate
from talos.pki.names import split_names
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.errors import UserError

LIFETIME = timedelta(days=365)
"""As upstream; renewed when half of it is over."""
LOOK_EVERY = 600.0
"""Seconds between checks of the age. Not one long wait, as the clock may jump meanwhile."""
MASTERS = "system:masters"
FRONT_PROXY = "front-proxy-client"
ADMIN = "talos:admin"
USERS = {
    "controller_manager_kubeconfig": ("system:kube-controller-manager", ()),
    "scheduler_kubeconfig": ("system:kube-scheduler", ()),
    "localhost_admin_kubeconfig": (ADMIN, (MASTERS,)),
}
"""For each kubeconfig of the secret, who its user is: name and groups."""


class RenewingReconciler(Reconciler):
    """A reconciler that also runs periodically."""

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at every change, and periodically."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tick, runtime)
            await super().run(runtime)


async def _tick(runtime: ControllerRuntime) -> None:
    while True:
        await trio.sleep(LOOK_EVERY)
        runtime.queue_reconcile()


class CertSANsController(Reconciler):
    """KubernetesRootSecret, names and addresses → CertSAN: what the API server is called."""

    name = "secrets.KubernetesCertSANsController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S),
    )
    outputs = (Output(kinds.CERT_SAN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource as soon as the node has a name and an address."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.CERT_SAN_KUBERNETES)
            return
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S)
        if hostname is None or not hostname.spec.hostname or not addresses or not addresses.spec.addresses:
            return
        name, domain = hostname.spec.hostname, hostname.spec.domainname
        names = [name, *([f"{name}.{domain}"] if domain else [])]
        ips = [prefix.ip[:16] for prefix in addresses.spec.addresses]
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


async def is_clock_right(runtime: ControllerRuntime) -> bool:
    """Whether certificates may be issued: a wrong clock would make them invalid."""
    time = await runtime.get_or_none(*ids.TIME_STATUS)
    return time is not None and (time.spec.synced or time.spec.sync_disabled)


def issue(spec: KubernetesDynamicCertsSpec, root: KubernetesRootSpec, sans: CertSANSpec) -> None:
    """Replace those certificates that can't stay."""
    authority = load_authority(root)
    ips = [ip_address(ip.ip) for ip in sans.i_ps]
    server = spec.api_server
    if not is_current(server, authority, sans.dns_names, ips):
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
    if not is_current(pair, authority):
        made = authority.issue(
            common_name=common_name,
            organizations=organizations,
            ttl=LIFETIME,
            usages=Usage.CLIENT,
            key_encipherment=True,
        )
        pair.crt, pair.key = made.crt, made.key


def is_current(
    pair: PEMEncodedCertificateAndKey,
    authority: CertificateAuthority,
    dns_names: Sequence[str] = (),
    ips: Sequence[IPv4Address | IPv6Address] = (),
) -> bool:
    """Whether a certificate may stay: half of its life is left, it is by this authority, for these names."""
    if not pair.crt or not pair.key:
        return False
    try:
        certificate = parse_certificate(pair.crt)
    except UserError:
        return False
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= datetime.now(UTC) < begin + (end - begin) / 2:
        return False
    if not is_signed_by(certificate, [authority.certificate]):
        return False
    return has_names(certificate, dns_names, ips) if dns_names or ips else True


class KubernetesSecretsController(RenewingReconciler):
    """KubernetesRootSecret → KubernetesSecret: the kubeconfigs of this node's control plane."""

    name = "secrets.KubernetesController"
    inputs = (Input(*ids.KUBERNETES_ROOT_SECRET), Input(*ids.TIME_STATUS))
    outputs = (Output(kinds.KUBERNETES_SECRET),)

    def __init__(self) -> None:
        self._pairs = {name: PEMEncodedCertificateAndKey() for name in USERS}

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; certificates stay until they are due."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None:
            await runtime.remove(*ids.KUBERNETES_SECRET)
            return
        if not await is_clock_right(runtime):
            return
        authority, spec = load_authority(root.spec), KubernetesCertsSpec()
        for name, (user, groups) in USERS.items():
            pair = self._pairs[name]
            renew_client(pair, authority, user, groups)
            setattr(spec, name, make_kubeconfig(root.spec, user, pair))
        await runtime.put(*ids.KUBERNETES_SECRET, spec)


def make_kubeconfig(root: KubernetesRootSpec, user: str, pair: PEMEncodedCertificateAndKey) -> str:
    """A kubeconfig for a program on this node."""
    return format_kubeconfig(
        Kubeconfig(
            server=root.local_endpoint.full_path,
            authority=b"\n".join(authority.crt for authority in root.accepted_c_as),
            cluster=root.name,
            user=user,
            certificate=pair.crt,
            key=pair.key,
        )
    )
