"""Manifests: what every cluster begins with."""

import hashlib
import json
from collections.abc import Sequence

from talos.api.definitions.k8s_pb2 import (
    BootstrapManifestsConfigSpec,
    ManifestSpec,
    SingleManifest,
)
from talos.config import contract
from talos.config.arguments import PROXY, format_arguments, merge_arguments
from talos.config.effective import cluster as effective
from talos.config.effective import kubernetes
from talos.config.model import Config
from talos.kubed.controllers.control_plane import make_resources, read_control_plane_config
from talos.kubed.manifests.bootstrap import make_manifests
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain, to_struct


class BootstrapConfigController(Reconciler):
    """MachineConfig → BootstrapManifestsConfig; on control plane nodes with Kubernetes."""

    name = "k8s.BootstrapManifestsConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.BOOTSTRAP_MANIFESTS_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_control_plane_config(runtime)
        async with runtime.track_outputs():
            if config is not None:
                await runtime.put(*ids.BOOTSTRAP_MANIFESTS_CONFIG, make_bootstrap_config(config))


def make_bootstrap_config(config: Config) -> BootstrapManifestsConfigSpec:
    """The settings of the first manifests from the config."""
    proxy, dns = kubernetes.proxy(config), kubernetes.core_dns(config)
    addresses = kubernetes.find_dns(effective.service_subnets(config))
    proxy_config = to_struct(proxy.config)
    checksum = hashlib.sha256(json.dumps(to_plain(proxy_config), sort_keys=True).encode()).hexdigest()
    spec = BootstrapManifestsConfigSpec(
        server=effective.cluster_endpoint(config) or "",
        cluster_domain=effective.dns_domain(config),
        pod_cid_rs=effective.pod_subnets(config),
        proxy_enabled=proxy.enabled,
        proxy_image=proxy.image,
        proxy_args=format_arguments(make_proxy_arguments(proxy, effective.pod_subnets(config))),
        proxy_config=proxy_config,
        proxy_config_checksum=checksum if proxy.config else "",
        proxy_resources=make_resources(proxy.resources),
        core_dns_enabled=dns.enabled,
        core_dns_image=dns.image,
        talos_api_service_enabled=kubernetes.api_access(config) is not None,
        dns_service_ip=next((address for address in addresses if ":" not in address), ""),
        dns_service_i_pv6=next((address for address in addresses if ":" in address), ""),
    )
    if port := kubernetes.prism_port(config):
        spec.flannel_kube_service_host, spec.flannel_kube_service_port = "127.0.0.1", str(port)
    if flannel := kubernetes.flannel(config):
        _add_flannel(spec, flannel)
    return spec


def make_proxy_arguments(proxy: kubernetes.Component, pods: Sequence[str]) -> dict[str, Sequence[str]]:
    """kube-proxy's command line: with a file of settings, what is not in there.

    UserError: an argument that is the system's alone.
    """
    arguments = {"hostname-override": ["$(NODE_NAME)"]}
    if proxy.config:
        arguments |= {"config": ["/var/lib/kube-proxy/config.conf"]}
    else:
        arguments |= {
            "cluster-cidr": [",".join(pods)],
            "conntrack-max-per-core": ["0"],
            "kubeconfig": ["/etc/kubernetes/kubeconfig"],
        }
    return merge_arguments(PROXY, arguments, proxy.extra_args)


def _add_flannel(spec: BootstrapManifestsConfigSpec, flannel: kubernetes.Flannel) -> None:
    spec.flannel_enabled = True
    spec.flannel_image = contract.FLANNEL_IMAGE
    spec.flannel_backend_type = flannel.backend_type
    spec.flannel_backend_port = flannel.backend_port
    spec.flannel_backend_mtu = flannel.backend_mtu
    spec.flannel_extra_args.extend(flannel.extra_args)
    if flannel.network_policies:
        spec.flannel_kube_network_policies_enabled = True
        spec.flannel_kube_network_policies_image = contract.KUBE_NETWORK_POLICIES_IMAGE
    if flannel.backend_extra_config:
        spec.flannel_backend_extra_config.CopyFrom(to_struct(flannel.backend_extra_config))
    if flannel.resources:
        spec.flannel_resources.CopyFrom(make_resources(flannel.resources))


class ManifestController(Reconciler):
    """BootstrapManifestsConfig, KubernetesRootSecret → Manifest: what every cluster begins with."""

    name = "k8s.ManifestController"
    inputs = (Input(*ids.BOOTSTRAP_MANIFESTS_CONFIG), Input(*ids.KUBERNETES_ROOT_SECRET))
    outputs = (Output(kinds.MANIFEST, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write a resource for each name."""
        spec = await runtime.get_or_none(*ids.BOOTSTRAP_MANIFESTS_CONFIG)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        async with runtime.track_outputs():
            if spec is None or root is None:
                return
            for name, objects in make_manifests(spec.spec, root.spec).items():
                items = [SingleManifest(object=to_struct(found)) for found in objects]
                await runtime.put(kinds.MANIFEST, name, ManifestSpec(items=items))
