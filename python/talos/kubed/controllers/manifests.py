"""Manifests: what a cluster begins with and what the user adds, made and applied."""

import hashlib
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import trio
import yaml

from talos.api.definitions.k8s_pb2 import (
    BootstrapManifestsConfigSpec,
    ManifestSpec,
    ManifestStatusSpec,
    SingleManifest,
)
from talos.config import contract, effective, kubernetes
from talos.config.active import read_config
from talos.config.documents.kubernetes.flannel_cni import KubeFlannelCNIConfig
from talos.config.documents.kubernetes.inline_manifest import KubeInlineManifestConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.model import Config
from talos.config.static_pods import API_SERVER
from talos.kubed.admin import AdminAccess, find_pause
from talos.kubed.controllers.control_plane import make_resources
from talos.kubed.controllers.kubelet import find_dns, format_arguments
from talos.kubed.manifests.first import make_manifests, order
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain, to_struct
from talos.system.logging import Log

FIELD_MANAGER = "talos"
RETRY_EVERY = 2.0
"""Seconds between the first tries while the API server starts or refuses."""
STATUS = "manifests"


class BootstrapConfigController(Reconciler):
    """MachineConfig → BootstrapManifestsConfig; on control plane nodes with Kubernetes."""

    name = "k8s.BootstrapManifestsConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.BOOTSTRAP_MANIFESTS_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or not config.machine_type.is_control_plane:
                return
            if effective.cluster_endpoint(config):
                await runtime.put(*ids.BOOTSTRAP_MANIFESTS_CONFIG, make_bootstrap_config(config))


def make_bootstrap_config(config: Config) -> BootstrapManifestsConfigSpec:
    """The settings of the first manifests from the config."""
    proxy, dns = kubernetes.proxy(config), kubernetes.core_dns(config)
    addresses = find_dns(effective.service_subnets(config))
    proxy_config = to_struct(proxy.config)
    checksum = hashlib.sha256(json.dumps(to_plain(proxy_config), sort_keys=True).encode()).hexdigest()
    spec = BootstrapManifestsConfigSpec(
        server=effective.cluster_endpoint(config) or "",
        cluster_domain=effective.dns_domain(config),
        pod_cid_rs=effective.pod_subnets(config),
        proxy_enabled=proxy.enabled,
        proxy_image=proxy.image,
        proxy_args=format_arguments(proxy.extra_args),
        proxy_config=proxy_config,
        proxy_config_checksum=checksum,
        proxy_resources=make_resources(proxy.resources),
        core_dns_enabled=dns.enabled,
        core_dns_image=dns.image,
        dns_service_ip=next((address for address in addresses if ":" not in address), ""),
        dns_service_i_pv6=next((address for address in addresses if ":" in address), ""),
    )
    if port := kubernetes.prism_port(config):
        spec.flannel_kube_service_host, spec.flannel_kube_service_port = "127.0.0.1", str(port)
    _add_flannel(spec, config)
    return spec


def _add_flannel(spec: BootstrapManifestsConfigSpec, config: Config) -> None:
    document = config.find(KubeFlannelCNIConfig)
    network = config.cluster.network if config.cluster else None
    cni = network.cni if network else None
    if document is None and (
        config.find(KubeNetworkConfig) or (cni and cni.name not in {None, "", "flannel"})
    ):
        return
    spec.flannel_enabled = True
    spec.flannel_image = contract.FLANNEL_IMAGE
    spec.flannel_backend_type = (document and document.backend_type) or "vxlan"
    spec.flannel_backend_port = (document and document.backend_port) or contract.FLANNEL_PORT
    if document is None:
        return
    spec.flannel_backend_mtu = document.backend_mtu or 0
    spec.flannel_extra_args.extend(document.extra_args or ())
    if document.backend_extra_config:
        spec.flannel_backend_extra_config.CopyFrom(to_struct(document.backend_extra_config))


class ManifestController(Reconciler):
    """BootstrapManifestsConfig, KubernetesRootSecret, MachineConfig → Manifest."""

    name = "k8s.ManifestController"
    inputs = (
        Input(*ids.BOOTSTRAP_MANIFESTS_CONFIG),
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.MANIFEST),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write a resource for each name."""
        spec = await runtime.get_or_none(*ids.BOOTSTRAP_MANIFESTS_CONFIG)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if spec is None or root is None or config is None:
                return
            found = make_manifests(spec.spec, root.spec)
            for name, text in find_inline(config).items():
                try:
                    found[f"99-{name}"] = parse_manifests(text)
                except (ValueError, yaml.YAMLError) as error:
                    self._log.once(f"the manifest {name} is left out: {error}", key=f"manifest {name}")
            for name, objects in found.items():
                items = [SingleManifest(object=to_struct(found)) for found in objects]
                await runtime.put(kinds.MANIFEST, name, ManifestSpec(items=items))


def find_inline(config: Config) -> dict[str, str]:
    """The manifests in the config, by name."""
    main = (config.cluster.inline_manifests if config.cluster else None) or ()
    documents = config.find_all(KubeInlineManifestConfig)
    return {one.name: one.contents for one in main} | {one.name: one.manifest for one in documents}


def parse_manifests(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML stream; ValueError, YAMLError."""
    found: list[dict[str, Any]] = []
    for document in yaml.safe_load_all(text):
        if document is None:
            continue
        if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
            raise ValueError("an object needs apiVersion, kind and metadata")
        found.append(cast("dict[str, Any]", document))
    return found


class ManifestApplyController(Reconciler):
    """Manifest → objects in Kubernetes → ManifestStatus. What is there already stays as it is."""

    name = "k8s.ManifestApplyController"
    inputs = (
        Input(kinds.MANIFEST),
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(kinds.STATIC_POD, API_SERVER),
    )
    outputs = (Output(kinds.MANIFEST_STATUS),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._access = AdminAccess()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Create what is missing; repeated until everything is there."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        pod = await runtime.get_or_none(kinds.STATIC_POD, API_SERVER)
        manifests = sorted(await runtime.list(kinds.MANIFEST), key=lambda found: found.metadata.id)
        if root is None or pod is None or not manifests:
            return
        client = self._access.connect(root.spec)
        objects = [to_plain(item.object) for manifest in manifests for item in manifest.spec.items]
        began = trio.current_time()
        while problems := await self._apply(client, order(objects)):
            for text in problems:
                self._log.once(f"the manifests are not applied yet: {text}", key="manifests")
            await trio.sleep(find_pause(began, RETRY_EVERY))
            client = self._access.connect(root.spec)
        status = ManifestStatusSpec(manifests_applied=[found.metadata.id for found in manifests])
        await runtime.put(kinds.MANIFEST_STATUS, STATUS, status)

    async def _apply(self, client: KubernetesClient, objects: Iterable[dict[str, Any]]) -> list[str]:
        """Create each; the problems. Without an answer the rest is not tried."""
        problems: list[str] = []
        for manifest in objects:
            try:
                await create(client, manifest)
            except KubernetesError as error:
                problems.append(f"{manifest['kind']} {manifest['metadata']['name']}: {error}")
                if not error.status:
                    break
        return problems


async def create(client: KubernetesClient, manifest: dict[str, Any]) -> None:
    """Create an object unless there is one of its name."""
    collection = await client.find_collection(manifest)
    # Not by the attempt alone: a service whose address is taken, by itself, is refused as invalid.
    if await client.get_or_none(f"{collection}/{quote(manifest['metadata']['name'])}") is not None:
        return
    try:
        await client.call("POST", f"{collection}?fieldManager={FIELD_MANAGER}", manifest)
    except KubernetesError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
