"""The main document's ``machine``."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.documents.certificate import PEMEncodedCertificate, PEMEncodedCertificateAndKey
from talos.config.documents.v1alpha1.control_plane import MachineControlPlaneConfig
from talos.config.documents.v1alpha1.encryption import SystemDiskEncryptionConfig
from talos.config.documents.v1alpha1.features import FeaturesConfig
from talos.config.documents.v1alpha1.install import InstallConfig
from talos.config.documents.v1alpha1.kubelet import KubeletConfig
from talos.config.documents.v1alpha1.network import NetworkConfig
from talos.config.documents.v1alpha1.registries import RegistriesConfig
from talos.config.schema import FILE_MODE, Applies, Section, setting
from talos.config.values import Duration, FileMode, RoundSize, Unstructured, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPartition(Section):
    """Partitions to make."""

    size: RoundSize | None = setting("size; the last partition may be without one and uses the rest")
    mountpoint: str | None = setting("mount point")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDisk(Section):
    """Further disks to partition."""

    device: str | None = setting("path of the disk")
    partitions: tuple[DiskPartition, ...] | None = setting("partitions to make")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFile(Section):
    """Files to write."""

    content: str = setting("content of the file", default="", private=True)
    permissions: FileMode | None = setting("permission bits", bounds=FILE_MODE)
    path: str = setting("path of the file", default="")
    op: str = setting("operation on the file", default="", allowed=("create", "append", "overwrite"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeConfig(Section):
    """Synchronization of the clock."""

    disabled: bool | None = setting("disable it (default: false)")
    servers: tuple[str, ...] | None = setting("time servers (default: time.cloudflare.com)")
    boot_timeout: Duration | None = setting("how long booting waits for the time (default: infinity)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UdevConfig(Section):
    """Device rules."""

    rules: tuple[str, ...] | None = setting("udev rules, one a line")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingDestination(Section):
    """A destination of logs."""

    endpoint: Url | None = setting("URL to send to")
    format: str = setting("form of the lines", default="", allowed=("json_lines",))
    extra_tags: Mapping[str, str] | None = setting("fields to add to each line")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingConfig(Section):
    """Destinations of logs."""

    destinations: tuple[LoggingDestination, ...] = setting("destinations of logs", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModuleConfig(Section):
    """Modules to load."""

    name: str = setting("name of the module", default="")
    parameters: tuple[str, ...] | None = setting("parameters of the module")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConfig(Section):
    """The kernel."""

    modules: tuple[KernelModuleConfig, ...] | None = setting("modules to load")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSeccompProfile(Section):
    """Seccomp profiles for workloads."""

    name: str = setting("file name", default="")
    value: Unstructured | None = setting("the profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineConfig(Section):
    """The machine itself."""

    type: str = setting(
        "role of the machine in the cluster",
        default="",
        allowed=("controlplane", "worker", "init", "join", ""),
        applies=Applies.REBOOT,
    )
    token: str = setting("shared token with which nodes request certificates", default="", secret=True)
    ca: PEMEncodedCertificateAndKey | None = setting("certificate authority of the node's API")
    accepted_cas: tuple[PEMEncodedCertificate, ...] | None = setting(
        "further authorities whose clients are accepted",
        key="acceptedCAs",
        example=[{"crt": "LS0tIEVYQU1QTEUgQ0VSVElGSUNBVEUgLS0t"}],
    )
    cert_sans: tuple[str, ...] = setting(
        "further names and addresses in the server certificate",
        key="certSANs",
        default=(),
        example=["10.0.0.10", "node.example.com"],
    )
    control_plane: MachineControlPlaneConfig | None = setting(
        "control plane components on this machine",
        replaced_by=("KubeControllerManagerConfig", "KubeSchedulerConfig"),
    )
    kubelet: KubeletConfig | None = setting("the kubelet", replaced_by=("KubeletConfig",))
    pods: tuple[Unstructured, ...] | None = setting(
        "static pods", replaced_by=("KubeStaticPodConfig",), private=True
    )
    network: NetworkConfig | None = setting(
        "network of the machine",
        replaced_by=("HostnameConfig", "ResolverConfig", "StaticHostConfig", "KubeSpanConfig"),
    )
    disks: tuple[MachineDisk, ...] | None = setting(
        "further disks to partition", applies=Applies.REBOOT, replaced_by=("UserVolumeConfig",)
    )
    install: InstallConfig | None = setting("how the system is installed", applies=Applies.INSTALL)
    files: tuple[MachineFile, ...] | None = setting(
        "files to write",
        applies=Applies.REBOOT,
        replaced_by=("EtcFileConfig", "CRICustomizationConfig"),
    )
    env: Mapping[str, str] | None = setting(
        "environment variables", replaced_by=("EnvironmentConfig",), private=True
    )
    time: TimeConfig | None = setting("how the clock is kept", replaced_by=("TimeSyncConfig",))
    sysctls: Mapping[str, str] | None = setting(
        "kernel parameters under /proc/sys", replaced_by=("SysctlConfig",)
    )
    sysfs: Mapping[str, str] | None = setting("kernel parameters under /sys", replaced_by=("SysfsConfig",))
    registries: RegistriesConfig | None = setting("image registries")
    system_disk_encryption: SystemDiskEncryptionConfig | None = setting(
        "encryption of system partitions", applies=Applies.REBOOT, replaced_by=("VolumeConfig",)
    )
    features: FeaturesConfig | None = setting("features to switch")
    udev: UdevConfig | None = setting("device rules", replaced_by=("UdevRulesConfig",))
    logging: LoggingConfig | None = setting(
        "where logs are sent",
        example={"destinations": [{"endpoint": "udp://127.0.0.1:12345", "format": "json_lines"}]},
    )
    kernel: KernelConfig | None = setting("the kernel", replaced_by=("KernelModuleConfig",))
    seccomp_profiles: tuple[MachineSeccompProfile, ...] | None = setting(
        "seccomp profiles for workloads",
        example=[{"name": "audit.json", "value": {"defaultAction": "SCMP_ACT_LOG"}}],
    )
    base_runtime_spec_overrides: Unstructured | None = setting(
        "changes to the OCI runtime spec of every container", replaced_by=("CRIBaseRuntimeSpecConfig",)
    )
    node_labels: Mapping[str, str] | None = setting("labels of the node", replaced_by=("KubeNodeConfig",))
    node_annotations: Mapping[str, str] | None = setting(
        "annotations of the node", replaced_by=("KubeNodeConfig",)
    )
    node_taints: Mapping[str, str] | None = setting("taints of the node", replaced_by=("KubeNodeConfig",))
