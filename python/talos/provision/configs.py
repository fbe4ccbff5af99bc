"""The machine configs and the client's file of a new cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network

from talos.config import contract
from talos.config.change.patch import Patch, apply_patches, parse_patch
from talos.config.check.validate import Mode, check
from talos.config.contract import Contract
from talos.config.effective import cluster as effective
from talos.config.generate.config import generate_config, generate_talosconfig, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.config.talosconfig.model import TalosConfig
from talos.provision.cluster import ClusterRequest, Role
from talos.provision.mirror.archives import Images, read_images
from talos.provision.plan import DISK_PATHS, with_configs
from talos.system.errors import UserError
from talos.upgrade.release.archive import REPOSITORY

CLOCK = """\
apiVersion: v1alpha1
kind: TimeSyncConfig
bootTimeout: 10s
"""
"""Of clusters of machines, whose clocks are those of this machine when they start."""
HOST_DNS = "machine: {features: {hostDNS: {enabled: true, forwardKubeDNSToHost: true}}}\n"
"""Of containers, which need it, where the layout of the configs does not have it yet."""
IMAGE_CACHE = """\
apiVersion: v1alpha1
kind: ImageCacheConfig
local: {enabled: true}
"""
"""Of containers that are given a cache of images."""
_TYPES = {Role.CONTROL_PLANE: MachineType.CONTROL_PLANE, Role.WORKER: MachineType.WORKER}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOptions:
    """What the configs shall hold beside what follows from the request.

    ``contract`` is the version of Talos whose layout of configs they have. An empty
    ``kubernetes_version`` is that of the cluster's images, else the usual one.
    ``registry_mirrors`` are texts ``registry=url``; the cluster's own mirror comes after them.
    """

    contract: Contract = contract.CURRENT
    kubernetes_version: str = ""
    registry_mirrors: Sequence[str] = ()
    patches: Sequence[Patch] = ()
    control_plane_patches: Sequence[Patch] = ()
    worker_patches: Sequence[Patch] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A request whose nodes have their configs, the secrets they were made from, the client's file."""

    request: ClusterRequest
    secrets: str
    talosconfig: TalosConfig


def generate_configs(request: ClusterRequest, chosen: ConfigOptions) -> Generated:
    """Fresh secrets and a config for each role; ConfigError when a patch doesn't fit."""
    secrets = SecretsBundle.generate(contract=chosen.contract)
    images = read_images(request.images) if request.images else Images((), {})
    # A node requests the version in its config, so that is the one which the mirror has.
    offered = images.tag_of("kube-apiserver").removeprefix("v")
    options = GenerateOptions(
        cluster_name=request.name,
        endpoint=f"https://{request.control_plane}:{contract.API_SERVER_PORT}",
        secrets=secrets,
        kubernetes_version=chosen.kubernetes_version or offered or contract.KUBERNETES_VERSION,
        additional_sans=[*dict.fromkeys(map(str, (*request.endpoints, request.control_plane)))],
        # A container is not installed: it runs from the image the host has.
        install_disk=DISK_PATHS[request.nodes[0].disks[0].driver] if request.nodes[0].disks else "",
        registry_mirrors=[
            *chosen.registry_mirrors,
            *(f"{registry}={request.mirror_endpoint}" for registry in _list_registries(images)),
        ],
        with_cluster_discovery=request.discovery,
        discovery_endpoint=request.discovery_endpoint,
        contract=chosen.contract,
    )
    needed: list[Patch] = []
    if request.nodes[0].disks:
        # A machine has a clock of its own, but its network may lead nowhere: time servers get a moment.
        needed.append(parse_patch(CLOCK, source="clock"))
    elif chosen.contract < contract.FORWARD_KUBE_DNS:
        needed.append(parse_patch(HOST_DNS, source="host DNS"))
    if request.image_cache is not None:
        needed.append(parse_patch(IMAGE_CACHE, source="image cache"))
    own = {Role.CONTROL_PLANE: chosen.control_plane_patches, Role.WORKER: chosen.worker_patches}
    configs: dict[Role, str] = {}
    for role in sorted({node.role for node in request.nodes}, key=lambda role: role.value):
        text = render(generate_config(options, _TYPES[role]), docs=False, examples=False)
        patches, source = (*needed, *chosen.patches, *own[role]), f"{role.value}.yaml"
        configs[role] = apply_patches(text, patches, source=source) if patches else text
        _check(configs[role], request, source)
    talosconfig = generate_talosconfig(options)
    endpoints = tuple(str(address) for address in request.endpoints)
    # With a node set, commands work without --nodes; the first one is as good as any.
    context = replace(talosconfig.current, endpoints=endpoints, nodes=endpoints[:1])
    return Generated(
        request=with_configs(request, configs),
        secrets=secrets.dump(),
        talosconfig=talosconfig.with_context(request.name, context),
    )


def _check(text: str, request: ClusterRequest, source: str) -> None:
    """A node would refuse a wrong config, and wait in maintenance for another; UserError, ConfigError."""
    config = load(text, source=source)
    check(config, Mode.METAL if request.nodes[0].disks else Mode.CONTAINER)
    for subnet in (*effective.pod_subnets(config), *effective.service_subnets(config)):
        network = ip_network(subnet, strict=False)
        if network.version == request.subnet.version and network.overlaps(request.subnet):
            problem = f"{request.subnet} overlaps with {network}, a network of pods or services"
            raise UserError(problem, where="--subnet", hint="take another one, such as 10.5.0.0/24")


def _list_registries(images: Images) -> list[str]:
    """Those that the cluster's mirror stands for: of its images, and of releases, which may come later."""
    releases = REPOSITORY.partition("/")[0]
    return sorted({*images.registries, releases}) if images.manifests else []
