"""The control plane's components in the main document."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.schema import PORT, Merge, Section, setting
from talos.config.values import NOTHING, Args, Unstructured, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineControllerManagerConfig(Section):
    """Kube-controller-manager."""

    disabled: bool | None = setting("disable it")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSchedulerConfig(Section):
    """Kube-scheduler."""

    disabled: bool | None = setting("disable it")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineControlPlaneConfig(Section):
    """Control plane components on this machine."""

    controller_manager: MachineControllerManagerConfig | None = setting(
        "kube-controller-manager", replaced_by=("KubeControllerManagerConfig",)
    )
    scheduler: MachineSchedulerConfig | None = setting("kube-scheduler", replaced_by=("KubeSchedulerConfig",))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneConfig(Section):
    """Endpoint of the control plane."""

    endpoint: Url | None = setting("URL of the Kubernetes API")
    local_api_server_port: int | None = setting(
        "port of the local API server",
        key="localAPIServerPort",
        bounds=PORT,
        replaced_by=("KubeAPIServerConfig",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMountConfig(Section):
    """Further mounts."""

    host_path: str = setting("path on the host", default="")
    mount_path: str = setting("path inside the container", default="")
    readonly: bool | None = setting("without writing")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPluginConfig(Section):
    """Admission plugins."""

    name: str = setting("name of the plugin", default="")
    configuration: Unstructured = setting("its configuration", default=NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesConfig(Section):
    """CPU and memory."""

    requests: Unstructured | None = setting("guaranteed resources")
    limits: Unstructured | None = setting("limits of CPU and memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationConfigAuthorizerConfig(Section):
    """Authorizers, in order."""

    type: str = setting("kind of authorizer", default="")
    name: str = setting("its name", default="")
    webhook: Unstructured | None = setting("settings of the webhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class APIServerConfig(Section):
    """Kube-apiserver."""

    image: str | None = setting("container image")
    extra_args: Args | None = setting("further command line arguments")
    extra_volumes: tuple[VolumeMountConfig, ...] | None = setting("further mounts")
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    cert_sans: tuple[str, ...] | None = setting(
        "further names and addresses in the server certificate", key="certSANs"
    )
    disable_pod_security_policy: bool | None = setting("has no effect any more")
    admission_control: tuple[AdmissionPluginConfig, ...] | None = setting(
        "admission plugins", merge_key="name", replaced_by=("KubeAdmissionControlConfig",)
    )
    audit_policy: Unstructured | None = setting(
        "what is audited", merge=Merge.REPLACE, replaced_by=("KubeAuditPolicyConfig",)
    )
    resources: ResourcesConfig | None = setting("CPU and memory")
    authorization_config: tuple[AuthorizationConfigAuthorizerConfig, ...] | None = setting(
        "authorizers, in order", merge_key="name", replaced_by=("KubeAuthorizerConfig",)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerManagerConfig(Section):
    """Kube-controller-manager."""

    image: str | None = setting("container image")
    extra_args: Args | None = setting("further command line arguments")
    extra_volumes: tuple[VolumeMountConfig, ...] | None = setting("further mounts")
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    resources: ResourcesConfig | None = setting("CPU and memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig(Section):
    """Kube-proxy."""

    disabled: bool | None = setting("disable it")
    image: str | None = setting("container image")
    mode: str | None = setting("how services are routed")
    extra_args: Args | None = setting("further command line arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig(Section):
    """Kube-scheduler."""

    image: str | None = setting("container image")
    extra_args: Args | None = setting("further command line arguments")
    extra_volumes: tuple[VolumeMountConfig, ...] | None = setting("further mounts")
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    resources: ResourcesConfig | None = setting("CPU and memory")
    config: Unstructured | None = setting("its configuration file")
