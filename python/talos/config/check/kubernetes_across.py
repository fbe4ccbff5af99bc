"""What Kubernetes on a node must have in common: versions that work together, networks apart, authorizers.

https://kubernetes.io/releases/version-skew-policy/
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import cast

from talos.config import contract
from talos.config.check.note import Note
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.authorizer import KubeAuthorizerConfig
from talos.config.documents.kubernetes.controller_manager import KubeControllerManagerConfig
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.scheduler import KubeSchedulerConfig
from talos.config.documents.kubernetes.static_pod import KubeStaticPodConfig
from talos.config.effective import cluster as effective
from talos.config.effective import kubernetes
from talos.config.model import Config
from talos.config.schema import Document

type Minor = tuple[int, int]

KUBELET_SKEW, COMPONENT_SKEW = 3, 1
"""Minor versions that a program may be older than the API server."""
_TAG = re.compile(r":v?(\d+)\.(\d+)\.\d+[^/]*$")


def check_kubernetes(config: Config) -> Iterator[Note]:
    """Networks that overlap, authorizers and static pods twice."""
    if effective.cluster_endpoint(config):
        yield from _check_networks(config)
    yield from _check_authorizers(config)
    yield from _check_static_pods(config)


def _check_static_pods(config: Config) -> Iterator[Note]:
    """Of two pods of one name the kubelet runs either."""
    found = [
        *((one.pod, Note.at(one, "pod")) for one in config.find_all(KubeStaticPodConfig)),
        *(
            (pod, Note.at(config.main, f"machine.pods[{index}]"))
            for index, pod in enumerate((config.machine and config.machine.pods) or ())
        ),
    ]
    names: set[tuple[str, str]] = set()
    for pod, place in found:
        metadata = dict(pod or {}).get("metadata")
        if isinstance(metadata, Mapping):
            known = cast("Mapping[str, object]", metadata)
            name = str(known.get("namespace") or "default"), str(known.get("name"))
            if name in names:
                text = f'"{name[1]}" is there already in the namespace "{name[0]}"'
                yield place.below("metadata.name").find(text, hint="name it otherwise")
            names.add(name)


def _check_authorizers(config: Config) -> Iterator[Note]:
    """The API server ends when there are two of a type that is no webhook."""
    main = config.cluster.api_server if config.cluster else None
    found = [(one.type, Note.at(one, "type")) for one in config.find_all(KubeAuthorizerConfig)] or [
        (one.type, Note.at(config.main, f"cluster.apiServer.authorizationConfig[{index}].type"))
        for index, one in enumerate((main and main.authorization_config) or ())
    ]
    for index, (kind, place) in enumerate(found):
        if kind != "Webhook" and kind in [earlier for earlier, _ in found[:index]]:
            yield place.find(f'"{kind}" is there already', hint="several may be of type Webhook only")


def _check_networks(config: Config) -> Iterator[Note]:
    document = config.find(KubeNetworkConfig)
    place = Note.at(document) if document else Note.at(config.main, "cluster.network")
    for service in effective.service_subnets(config):
        for pods in effective.pod_subnets(config):
            try:
                one, other = ip_network(service, strict=False), ip_network(pods, strict=False)
            except ValueError:
                continue  # reported where it stands
            if one.version == other.version and one.overlaps(other):
                text = f'"{service}" overlaps with the pods\' "{pods}"'
                yield place.below("serviceSubnets").find(text, hint="take networks apart from each other")


def check_versions(config: Config) -> Iterator[Note]:
    """Versions that this one of the system does not run, or that don't work together."""
    if not effective.cluster_endpoint(config):
        return
    oldest, newest = contract.KUBERNETES_MINORS
    system = _format(contract.CURRENT)
    images: list[tuple[str, str, Note, int]] = [
        (
            "the kubelet",
            kubernetes.kubelet(config).image,
            _place(config, KubeletConfig, "machine.kubelet"),
            KUBELET_SKEW,
        )
    ]
    server: Minor | None = None
    if config.machine_type.is_control_plane:
        image = kubernetes.api_server(config).image
        server = find_minor(image)
        images += [
            ("kube-apiserver", image, _place(config, KubeAPIServerConfig, "cluster.apiServer"), 0),
            (
                "kube-controller-manager",
                kubernetes.controller_manager(config).image,
                _place(config, KubeControllerManagerConfig, "cluster.controllerManager"),
                COMPONENT_SKEW,
            ),
            (
                "kube-scheduler",
                kubernetes.scheduler(config).image,
                _place(config, KubeSchedulerConfig, "cluster.scheduler"),
                COMPONENT_SKEW,
            ),
        ]
    for program, image, place, skew in images:
        found = find_minor(image)
        if found is None:
            continue
        if not oldest <= found <= newest:
            # Upstream's text, which people search for.
            problem = "too old" if found < oldest else "too new"
            text = f"version of Kubernetes {_format(found)} is {problem} to be used with Talos {system}"
            yield place.find(text, hint=f"{_format(oldest)} to {_format(newest)}")
        elif server is not None and not 0 <= server[1] - found[1] <= skew:
            minimum = _format((server[0], server[1] - skew))
            hint = f"{minimum} to {_format(server)}" if skew else _format(server)
            text = f"{program} {_format(found)} does not work with kube-apiserver {_format(server)}"
            yield place.find(text, hint=hint)


def _place(config: Config, kind: type[Document], path: str) -> Note:
    document = config.find(kind)
    return Note.at(document, "image") if document else Note.at(config.main, f"{path}.image")


def find_minor(image: str) -> Minor | None:
    """The version in an image's tag; none when the tag is no version, or there is only a digest."""
    match = _TAG.search(image.partition("@")[0])
    return (int(match[1]), int(match[2])) if match else None


def _format(version: Minor) -> str:
    return f"{version[0]}.{version[1]}"
