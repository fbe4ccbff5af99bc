"""Configs of versions before documents: all but a few settings are in the main document.

Which version has which setting is in ``talos.config.contract``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from talos.config import contract as since
from talos.config.documents.certificate import PEMEncodedCertificateAndKey, PEMEncodedKey
from talos.config.documents.cri.registry_mirror import RegistryEndpoint, RegistryMirrorConfig
from talos.config.documents.network.hostname import HostnameConfig
from talos.config.documents.network.kube_span import KubeSpanConfig
from talos.config.documents.v1alpha1 import registries as old
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.cluster_network import ClusterNetworkConfig, CNIConfig
from talos.config.documents.v1alpha1.control_plane import (
    AdmissionPluginConfig,
    APIServerConfig,
    ControllerManagerConfig,
    ControlPlaneConfig,
    ProxyConfig,
    SchedulerConfig,
)
from talos.config.documents.v1alpha1.discovery import (
    ClusterDiscoveryConfig,
    DiscoveryRegistriesConfig,
    RegistryKubernetesConfig,
    RegistryServiceConfig,
)
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.documents.v1alpha1.features import FeaturesConfig, HostDNSConfig, KubePrism
from talos.config.documents.v1alpha1.install import InstallConfig
from talos.config.documents.v1alpha1.kubelet import KubeletConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.documents.v1alpha1.network import NetworkConfig, NetworkKubeSpan
from talos.config.generate.kubernetes import AUDIT_POLICY, NO_LOAD_BALANCER_LABEL, POD_SECURITY
from talos.config.generate.options import GenerateOptions, parse_mirrors
from talos.config.model import MachineType
from talos.config.schema import Document
from talos.config.values import Url
from talos.pki.certificate import PemPair

_OLD_KUBERNETES_MIRROR: Mapping[str, Sequence[str]] = {
    "k8s.gcr.io": ("https://registry.k8s.io", "https://k8s.gcr.io")
}


def legacy_documents(
    options: GenerateOptions, machine_type: MachineType, endpoint: Url
) -> Iterator[Document]:
    """The main document and the few others that the options' version has, in order."""
    is_control_plane = machine_type.is_control_plane
    yield V1Alpha1Config(
        version="v1alpha1",
        debug=False,
        persist=options.persist,
        machine=_machine(options, machine_type),
        cluster=_cluster(options, endpoint, is_control_plane=is_control_plane),
    )
    if options.contract >= since.NETWORK_DOCUMENTS:
        yield from mirror_documents(options)
        yield HostnameConfig(auto="stable")
    if options.with_kubespan and options.contract >= since.KUBE_SPAN_DOCUMENT:
        yield KubeSpanConfig(enabled=True)


def mirror_documents(options: GenerateOptions) -> Iterator[RegistryMirrorConfig]:
    """The mirrors as documents, which later versions have, too."""
    for registry, urls in parse_mirrors(options.registry_mirrors).items():
        endpoints = tuple(RegistryEndpoint(url=Url(url)) for url in urls)
        yield RegistryMirrorConfig(name=registry, endpoints=endpoints)


def _machine(options: GenerateOptions, machine_type: MachineType) -> MachineConfig:
    contract, secrets = options.contract, options.secrets
    is_control_plane = machine_type.is_control_plane
    labelled = is_control_plane and contract >= since.NO_LOAD_BALANCER_LABEL
    mirrors = _mirrors(options)
    return MachineConfig(
        type=machine_type.value,
        token=secrets.trustd_token,
        ca=_pair(secrets.os, with_key=is_control_plane),
        cert_sans=tuple(options.additional_sans),
        kubelet=KubeletConfig(
            image=f"{since.KUBELET_IMAGE}:{_version(options)}",
            default_runtime_seccomp_profile_enabled=contract >= since.SECCOMP_DEFAULT or None,
            disable_manifests_directory=contract >= since.NO_MANIFESTS_DIRECTORY or None,
        ),
        network=_network(options),
        install=InstallConfig(
            disk=options.install_disk or None,
            image=options.install_image or None,
            wipe=False,
            grub_use_uki_cmdline=contract >= since.UKI_CMDLINE or None,
        ),
        registries=old.RegistriesConfig(mirrors=mirrors) if mirrors else None,
        features=_features(options),
        node_labels={NO_LOAD_BALANCER_LABEL: ""} if labelled else None,
    )


def _network(options: GenerateOptions) -> NetworkConfig | None:
    if options.contract >= since.KUBE_SPAN_DOCUMENT:
        return None
    return NetworkConfig(kubespan=NetworkKubeSpan(enabled=True) if options.with_kubespan else None)


def _mirrors(options: GenerateOptions) -> Mapping[str, old.RegistryMirrorConfig]:
    if options.contract >= since.NETWORK_DOCUMENTS:
        return {}
    found = dict(parse_mirrors(options.registry_mirrors))
    if options.contract == since.OLD_REGISTRY_MIRRORS:
        found = {**_OLD_KUBERNETES_MIRROR, **found}
    return {registry: old.RegistryMirrorConfig(endpoints=tuple(urls)) for registry, urls in found.items()}


def _features(options: GenerateOptions) -> FeaturesConfig:
    contract, port = options.contract, options.kube_prism_port
    if port is None and contract >= since.KUBE_PRISM:
        port = since.KUBE_PRISM_PORT
    is_explicit = contract < since.RBAC_IMPLIED
    has_stable_name = since.STABLE_HOSTNAME <= contract < since.NETWORK_DOCUMENTS
    host_dns = HostDNSConfig(
        enabled=True, forward_kube_dns_to_host=contract >= since.FORWARD_KUBE_DNS or None
    )
    return FeaturesConfig(
        rbac=is_explicit or None,
        stable_hostname=has_stable_name or None,
        apid_check_ext_key_usage=(is_explicit and contract >= since.KEY_USAGE_CHECK) or None,
        disk_quota_support=contract >= since.DISK_QUOTA or None,
        kube_prism=KubePrism(enabled=True, port=port) if port else None,
        host_dns=host_dns if contract >= since.HOST_DNS else None,
    )


def _cluster(options: GenerateOptions, endpoint: Url, *, is_control_plane: bool) -> ClusterConfig:
    contract, secrets = options.contract, options.secrets
    named = is_control_plane or contract >= since.WORKERS_HAVE_CLUSTER_NAME
    no_kubernetes = RegistryKubernetesConfig(disabled=contract >= since.NO_KUBERNETES_DISCOVERY or None)
    is_own = options.discovery_endpoint != since.DISCOVERY_ENDPOINT
    service = RegistryServiceConfig(endpoint=options.discovery_endpoint if is_own else None)
    common = ClusterConfig(
        id=secrets.cluster_id,
        secret=secrets.cluster_secret,
        control_plane=ControlPlaneConfig(endpoint=endpoint),
        cluster_name=options.cluster_name if named else None,
        network=_cluster_network(options),
        token=secrets.bootstrap_token,
        ca=_pair(secrets.kubernetes, with_key=is_control_plane),
        discovery=ClusterDiscoveryConfig(
            enabled=options.with_cluster_discovery,
            registries=DiscoveryRegistriesConfig(kubernetes=no_kubernetes, service=service),
        ),
    )
    return _with_control_plane(common, options, endpoint) if is_control_plane else common


def _cluster_network(options: GenerateOptions) -> ClusterNetworkConfig:
    cni = CNIConfig(name="custom", urls=(options.custom_cni_url,)) if options.custom_cni_url else None
    return ClusterNetworkConfig(
        cni=cni,
        dns_domain=options.dns_domain,
        pod_subnets=tuple(options.pod_subnets or (since.POD_SUBNET,)),
        service_subnets=tuple(options.service_subnets or (since.SERVICE_SUBNET,)),
    )


def _with_control_plane(common: ClusterConfig, options: GenerateOptions, endpoint: Url) -> ClusterConfig:
    contract, secrets, version = options.contract, options.secrets, _version(options)
    has_secretbox = contract >= since.SECRETBOX
    schedules = options.allow_scheduling_on_control_planes
    schedules_by_new_name = schedules and contract >= since.ALLOW_SCHEDULING_ON_CONTROL_PLANES
    return replace(
        common,
        secretbox_encryption_secret=(secrets.secretbox_secret if has_secretbox else "") or None,
        aescbc_encryption_secret=("" if has_secretbox else secrets.aescbc_secret) or None,
        aggregator_ca=_pair(secrets.aggregator, with_key=True),
        service_account=PEMEncodedKey(key=secrets.service_account),
        api_server=_api_server(options, endpoint),
        controller_manager=ControllerManagerConfig(image=f"{since.KUBE_CONTROLLER_MANAGER_IMAGE}:{version}"),
        proxy=ProxyConfig(image=f"{since.KUBE_PROXY_IMAGE}:{version}"),
        scheduler=SchedulerConfig(image=f"{since.KUBE_SCHEDULER_IMAGE}:{version}"),
        etcd=EtcdConfig(ca=_pair(secrets.etcd, with_key=True)),
        allow_scheduling_on_masters=(schedules and not schedules_by_new_name) or None,
        allow_scheduling_on_control_planes=schedules_by_new_name or None,
    )


def _api_server(options: GenerateOptions, endpoint: Url) -> APIServerConfig:
    contract = options.contract
    names = tuple(options.additional_sans)
    if contract < since.NETWORK_DOCUMENTS:
        names = (endpoint.host, *names)
    pod_security = AdmissionPluginConfig(name="PodSecurity", configuration=POD_SECURITY)
    return APIServerConfig(
        image=f"{since.KUBE_API_SERVER_IMAGE}:{_version(options)}",
        cert_sans=names or None,
        disable_pod_security_policy=contract < since.NO_POD_SECURITY_POLICY or None,
        admission_control=(pod_security,) if contract >= since.POD_SECURITY else None,
        audit_policy=AUDIT_POLICY if contract >= since.AUDIT_POLICY else None,
    )


def _version(options: GenerateOptions) -> str:
    return f"v{options.kubernetes_version.removeprefix('v')}"


def _pair(pair: PemPair, *, with_key: bool) -> PEMEncodedCertificateAndKey:
    return PEMEncodedCertificateAndKey(crt=pair.crt, key=pair.key if with_key else b"")
