"""The programs of Kubernetes whose images the machine configs name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.controller_manager import KubeControllerManagerConfig
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.kubernetes.proxy import KubeProxyConfig
from talos.config.documents.kubernetes.scheduler import KubeSchedulerConfig
from talos.config.documents.v1alpha1 import control_plane as old
from talos.config.documents.v1alpha1 import kubelet as old_kubelet
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.effective import kubernetes
from talos.config.model import Config
from talos.config.schema import Document
from talos.resource import ids
from talos.talosctl.client.change import replace_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One program.

    Its image is in a document of its own, else in a section of the main one; ``resource`` has the settings in
    effect, of a static pod.
    """

    name: str
    document: type[Document]
    section: type[Any]
    field: str
    """The section's name in ``cluster``, of the kubelet in ``machine``."""
    resource: ids.Singleton[Any] | None = None
    read: Callable[[Config], kubernetes.Component] | None = None
    """Its effective settings; what has none always runs."""


API_SERVER = Component(
    name="kube-apiserver",
    document=KubeAPIServerConfig,
    section=old.APIServerConfig,
    field="api_server",
    resource=ids.API_SERVER_CONFIG,
    read=kubernetes.api_server,
)
CONTROLLER_MANAGER = Component(
    name="kube-controller-manager",
    document=KubeControllerManagerConfig,
    section=old.ControllerManagerConfig,
    field="controller_manager",
    resource=ids.CONTROLLER_MANAGER_CONFIG,
    read=kubernetes.controller_manager,
)
SCHEDULER = Component(
    name="kube-scheduler",
    document=KubeSchedulerConfig,
    section=old.SchedulerConfig,
    field="scheduler",
    resource=ids.SCHEDULER_CONFIG,
    read=kubernetes.scheduler,
)
PROXY = Component(
    name="kube-proxy", document=KubeProxyConfig, section=old.ProxyConfig, field="proxy", read=kubernetes.proxy
)
KUBELET = Component(
    name="kubelet", document=KubeletConfig, section=old_kubelet.KubeletConfig, field="kubelet"
)
STATIC_PODS = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
"""In the order in which they are upgraded: nothing may be newer than the API server."""


def find_image(config: Config, component: Component) -> str:
    """The image that a config names, empty when it names none."""
    document: Any = config.find(component.document)
    section = document or getattr(_parent(config, component), component.field)
    return (section.image if section else "") or ""


def set_image(config: Config, component: Component, image: str) -> Config:
    """The config with another image."""
    document: Any = config.find(component.document)
    if document is not None:
        return replace_document(config, document, replace(document, image=image))
    parent = _parent(config, component)
    section = getattr(parent, component.field) or component.section()
    changed: Any = replace(parent, **{component.field: replace(section, image=image)})
    main = config.main or V1Alpha1Config()
    name = "machine" if component is KUBELET else "cluster"
    return replace_document(config, main, replace(main, **{name: changed}))


def is_enabled(config: Config, component: Component) -> bool:
    """Whether the program runs at all, as far as its settings show."""
    return component.read is None or component.read(config).enabled


def _parent(config: Config, component: Component) -> Any:
    if component is KUBELET:
        return config.machine or MachineConfig()
    return config.cluster or ClusterConfig()
