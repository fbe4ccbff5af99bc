"""``KubeNetworkConfig``: the cluster's networks."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, setting
from talos.config.values import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNetworkConfig(Document):
    """The cluster's networks."""

    kind: ClassVar[str] = "KubeNetworkConfig"

    dns_domain: str | None = setting("domain of the cluster (default: cluster.local)")
    pod_subnets: tuple[Prefix, ...] = setting("networks of pods", default=(), merge=Merge.REPLACE)
    service_subnets: tuple[Prefix, ...] = setting("networks of services", default=(), merge=Merge.REPLACE)
    node_cidr_mask_size_ipv4: int | None = setting(
        "bits of a node's IPv4 pod network (default: 24)", key="nodeCIDRMaskSizeIPv4", bounds=(1, 32)
    )
    node_cidr_mask_size_ipv6: int | None = setting(
        "bits of a node's IPv6 pod network (default: 64)", key="nodeCIDRMaskSizeIPv6", bounds=(1, 128)
    )
