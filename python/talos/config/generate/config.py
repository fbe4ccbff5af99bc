"""A cluster's configs, as ``talosctl gen config`` makes them.

    options = GenerateOptions(cluster_name="demo", endpoint="https://10.0.0.1:6443", secrets=bundle)
    config = generate_config(options, MachineType.CONTROL_PLANE) -> Config
    text = render(config, docs=True, examples=True) -> str
    talosconfig = generate_talosconfig(options) -> TalosConfig

Documents, their order, keys and values are those that upstream's generator emits.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from talos.api.metadata import ADMIN
from talos.config.contract import DOCUMENTS
from talos.config.documents.block.filesystem_trim import FilesystemTrimConfig
from talos.config.documents.block.volume import MountSpec, VolumeConfig
from talos.config.documents.certificate import PEMEncodedCertificateAndKey
from talos.config.documents.cluster.discovery_identity import DiscoveryIdentityConfig
from talos.config.documents.cluster.discovery_service import DiscoveryServiceConfig
from talos.config.documents.network.hostname import HostnameConfig
from talos.config.documents.network.kube_span import KubeSpanConfig
from talos.config.documents.network.resolver import HostDNSConfig, ResolverConfig
from talos.config.documents.runtime.security_profile import SecurityProfileConfig
from talos.config.documents.runtime.unattended_install import (
    DiskSelectorSpec,
    InstallerSpec,
    ProvisioningSpec,
    UnattendedInstallConfig,
)
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.documents.v1alpha1.features import FeaturesConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.generate.kubernetes import kubernetes_documents
from talos.config.generate.legacy import legacy_documents, mirror_documents
from talos.config.generate.options import GenerateOptions, parse_endpoint
from talos.config.model import Config, MachineType
from talos.config.read.loader import dump
from talos.config.schema import Document
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.values import Duration, Expression, Url
from talos.config.write.field_comments import comments_for
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.system.errors import UserError

ADMIN_LIFETIME = timedelta(hours=8760)  # one year, as upstream's client file
ADMIN_ROLES = (ADMIN,)


def generate_config(options: GenerateOptions, machine_type: MachineType) -> Config:
    """The config of a machine of this type.

    UserError: when an option is wrong.
    """
    if not options.cluster_name:
        raise UserError("the cluster needs a name")
    endpoint = parse_endpoint(options.endpoint)
    if options.contract < DOCUMENTS:
        documents = [*legacy_documents(options, machine_type, endpoint)]
    else:
        documents = [_main(options, machine_type), *_documents(options)]
        if options.kubernetes:
            documents += kubernetes_documents(options, machine_type, endpoint)
    return Config((*documents, *options.extra_documents))


def generate_talosconfig(
    options: GenerateOptions, *, roles: Sequence[str] = ADMIN_ROLES, ttl: timedelta = ADMIN_LIFETIME
) -> TalosConfig:
    """The client's file with one context, named like the cluster, without endpoints."""
    pair = issue_client(options.secrets.os, roles=roles, ttl=ttl)
    context = Context(ca=options.secrets.os.crt, crt=pair.crt, key=pair.key)
    return TalosConfig(context=options.cluster_name, contexts={options.cluster_name: context})


def issue_client(
    os_ca: PemPair, *, roles: Sequence[str] = ADMIN_ROLES, ttl: timedelta = ADMIN_LIFETIME
) -> PemPair:
    """A client certificate of the node's API, Ed25519, with roles as its organizations."""
    authority = CertificateAuthority.from_pem(os_ca.crt, os_ca.key, where="certs.os")
    return authority.issue(organizations=roles, ttl=ttl, usages=Usage.CLIENT, key_type=KeyType.ED25519)


def render(config: Config, *, docs: bool = True, examples: bool = True) -> str:
    """The config as YAML, with remarks where requested."""
    if not docs and not examples:
        return dump(config)
    parts = (
        dump(Config((document,)), comments=comments_for(document, docs=docs, examples=examples))
        for document in config.documents
    )
    return "---\n".join(parts)


def _main(options: GenerateOptions, machine_type: MachineType) -> V1Alpha1Config:
    secrets = options.secrets
    key = secrets.os.key if machine_type.is_control_plane else b""
    etcd = EtcdConfig(ca=PEMEncodedCertificateAndKey(crt=secrets.etcd.crt, key=secrets.etcd.key))
    runs_etcd = options.kubernetes and machine_type.is_control_plane
    return V1Alpha1Config(
        version="v1alpha1",
        debug=False,
        persist=options.persist,
        machine=MachineConfig(
            type=machine_type.value,
            token=secrets.trustd_token,
            ca=PEMEncodedCertificateAndKey(crt=secrets.os.crt, key=key),
            cert_sans=tuple(options.additional_sans),
            features=FeaturesConfig(disk_quota_support=True),
        ),
        cluster=ClusterConfig(
            token=secrets.bootstrap_token if options.kubernetes else None, etcd=etcd if runs_etcd else None
        ),
    )


def _documents(options: GenerateOptions) -> Iterator[Document]:
    """The documents that both types of machine have and that aren't about Kubernetes."""
    if options.with_cluster_discovery:
        yield DiscoveryServiceConfig(name="default", endpoint=Url(options.discovery_endpoint))
    yield DiscoveryIdentityConfig(
        cluster_id=options.secrets.cluster_id, cluster_secret=options.secrets.cluster_secret
    )
    if options.install_disk:
        match = Expression(f'disk.dev_path == "{options.install_disk}"')
        yield UnattendedInstallConfig(
            installer=InstallerSpec(image=options.install_image or None),
            provisioning=ProvisioningSpec(disk_selector=DiskSelectorSpec(match=match), wipe=False),
        )
    yield ResolverConfig(host_dns=HostDNSConfig(enabled=True, forward_kube_dns_to_host=True))
    yield VolumeConfig(name="EPHEMERAL", mount=MountSpec(secure=True))
    yield FilesystemTrimConfig(interval=Duration("168h0m0s"))
    yield SecurityProfileConfig(workload_isolation=True)
    yield from mirror_documents(options)
    yield HostnameConfig(auto="stable")
    if options.with_kubespan:
        yield KubeSpanConfig(enabled=True)
