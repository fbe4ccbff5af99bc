"""``KubeNodeConfig``: settings of the Kubernetes node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIPConfig(Section):
    """Selection of the node's addresses for Kubernetes."""

    valid_subnets: tuple[str, ...] | None = setting("networks to choose from; ! excludes one")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNodeConfig(Document):
    """Settings of the Kubernetes node."""

    kind: ClassVar[str] = "KubeNodeConfig"

    skip_node_registration: bool | None = setting("do not register with the API server")
    register_with_fqdn: bool | None = setting("use the full domain name as node name", key="registerWithFQDN")
    node_ip: NodeIPConfig = setting(
        "which of the node's addresses Kubernetes uses",
        key="nodeIP",
        default=NodeIPConfig(),
        example={"validSubnets": ["10.0.0.0/8", "!10.0.0.3/32"]},
    )
    labels: Mapping[str, str] | None = setting("labels of the node")
    annotations: Mapping[str, str] | None = setting(
        "annotations of the node", example={"example.com/rack": "r1"}
    )
    taints: Mapping[str, str] | None = setting("taints of the node, value and effect")
