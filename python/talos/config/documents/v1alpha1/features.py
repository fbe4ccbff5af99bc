"""``machine.features``."""

from dataclasses import dataclass

from talos.config.schema import PORT, Applies, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesTalosAPIAccessConfig(Section):
    """Access of pods to the node's API."""

    enabled: bool | None = setting("enable it")
    allowed_roles: tuple[str, ...] | None = setting("roles that pods may request")
    allowed_kubernetes_namespaces: tuple[str, ...] | None = setting("namespaces the pods must be in")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePrism(Section):
    """Local load balancer in front of all API servers."""

    enabled: bool | None = setting("enable it")
    port: int | None = setting("port on localhost", bounds=PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDNSConfig(Section):
    """Caching resolver on the node."""

    enabled: bool | None = setting("enable it")
    forward_kube_dns_to_host: bool | None = setting(
        "let the cluster's DNS query it", key="forwardKubeDNSToHost"
    )
    resolve_member_names: bool | None = setting("resolve the names of members")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCacheConfig(Section):
    """Container images stored on the node."""

    local_enabled: bool | None = setting("use them")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesConfig(Section):
    """Optional features."""

    rbac: bool | None = setting("authorize callers by their roles")
    stable_hostname: bool | None = setting("derive the name from the machine's identity")
    kubernetes_talos_api_access: KubernetesTalosAPIAccessConfig | None = setting(
        "access of pods to the node's API",
        key="kubernetesTalosAPIAccess",
        replaced_by=("KubeTalosAPIAccessConfig",),
    )
    apid_check_ext_key_usage: bool | None = setting("check the usage of client certificates")
    disk_quota_support: bool | None = setting("quotas on EPHEMERAL", applies=Applies.REBOOT)
    kube_prism: KubePrism | None = setting(
        "local load balancer in front of all API servers", replaced_by=("KubePrismConfig",)
    )
    host_dns: HostDNSConfig | None = setting(
        "caching resolver on the node", key="hostDNS", replaced_by=("ResolverConfig",)
    )
    image_cache: ImageCacheConfig | None = setting(
        "images that the node brings with it", replaced_by=("ImageCacheConfig",)
    )
    node_address_sort_algorithm: str | None = setting("order of the node's addresses")
