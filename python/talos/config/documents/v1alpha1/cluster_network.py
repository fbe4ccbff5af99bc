"""``cluster.network``."""

from dataclasses import dataclass

from talos.config.schema import Merge, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FlannelCNIConfig(Section):
    """Settings of flannel."""

    extra_args: tuple[str, ...] | None = setting("further command line arguments")
    kube_network_policies_enabled: bool | None = setting("enforce network policies")


@dataclass(frozen=True, slots=True, kw_only=True)
class CNIConfig(Section):
    """The pod network."""

    name: str | None = setting("name of the CNI", allowed=("flannel", "custom", "none"))
    urls: tuple[str, ...] | None = setting("manifests to apply")
    flannel: FlannelCNIConfig | None = setting("settings of flannel")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetworkConfig(Section):
    """Networks of the cluster."""

    cni: CNIConfig | None = setting("the pod network")
    dns_domain: str = setting("domain of the cluster (default: cluster.local)", default="")
    pod_subnets: tuple[str, ...] = setting("networks of pods", default=(), merge=Merge.REPLACE)
    service_subnets: tuple[str, ...] = setting("networks of services", default=(), merge=Merge.REPLACE)
