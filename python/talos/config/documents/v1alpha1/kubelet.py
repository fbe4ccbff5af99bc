"""``machine.kubelet``."""

from dataclasses import dataclass

from talos.config.schema import UINT32, Section, setting
from talos.config.values import Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxIDMapping(Section):
    """Mapping of user ids."""

    container_id: int = setting("first id inside the container", key="containerID", default=0, bounds=UINT32)
    host_id: int = setting("first id on the host", key="hostID", default=0, bounds=UINT32)
    size: int = setting("number of ids", default=0, bounds=UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraMount(Section):
    """Further mounts of the kubelet's container."""

    destination: str = setting("path inside the container", default="")
    type: str | None = setting("kind of mount")
    source: str | None = setting("path on the host")
    options: tuple[str, ...] | None = setting("mount options")
    uid_mappings: tuple[LinuxIDMapping, ...] | None = setting("mapping of user ids")
    gid_mappings: tuple[LinuxIDMapping, ...] | None = setting("mapping of group ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletNodeIPConfig(Section):
    """Selection of the node's addresses for Kubernetes."""

    valid_subnets: tuple[str, ...] | None = setting("networks to choose from; ! excludes one")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig(Section):
    """The kubelet."""

    image: str | None = setting("container image")
    cluster_dns: tuple[str, ...] | None = setting(
        "addresses of the cluster's DNS servers", key="clusterDNS", example=["10.96.0.10"]
    )
    extra_args: Args | None = setting(
        "further command line arguments", example={"feature-gates": "ServerSideApply=true"}
    )
    extra_mounts: tuple[ExtraMount, ...] | None = setting("further mounts of the kubelet's container")
    extra_config: Unstructured | None = setting("further fields of its configuration file")
    credential_provider_config: Unstructured | None = setting("credential providers for pulling images")
    default_runtime_seccomp_profile_enabled: bool | None = setting(
        "use the runtime's default seccomp profile"
    )
    register_with_fqdn: bool | None = setting(
        "use the full domain name as node name", key="registerWithFQDN", replaced_by=("KubeNodeConfig",)
    )
    node_ip: KubeletNodeIPConfig | None = setting(
        "which of the node's addresses Kubernetes uses", key="nodeIP", replaced_by=("KubeNodeConfig",)
    )
    skip_node_registration: bool | None = setting(
        "do not register with the API server", replaced_by=("KubeNodeConfig",)
    )
    disable_manifests_directory: bool | None = setting("ignore static pod manifests on disk")
