"""Documents and settings without effect on nodes of this version, which have no reader.

The test of this module compares the table with the source of the nodes: a kind leaves it with the
change that brings its reader.
"""

from collections.abc import Iterator

from talos.config.check.legacy import find_replaced
from talos.config.check.note import Note
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.documents.kubernetes.flannel_cni import KubeFlannelCNIConfig
from talos.config.model import Config

UNREAD_KINDS = frozenset({
    "BGPInstanceConfig", "ContainerConfig", "EtcFileConfig",
    "EventSinkConfig", "ExistingVolumeConfig",
    "ExternalVolumeConfig", "FilesystemScrubConfig", "FilesystemTrimConfig", "HCloudVIPConfig",
    "ImageCacheConfig", "ImageVerificationConfig", "KernelModuleConfig", "KmsgLogConfig",
    "KubeSpanConfig", "KubeSpanEndpointsConfig",
    "LVMLogicalVolumeConfig",
    "LVMVolumeGroupConfig",
    "OOMConfig", "PCIDriverRebindConfig", "RAIDArrayConfig", "RawVolumeConfig",
    "SecurityProfileConfig", "SideroLinkConfig",
    "SwapVolumeConfig", "TrustedRootsConfig", "ZswapConfig",
})  # fmt: skip

UNREAD_SETTINGS = {"machine.logging": "logging", "machine.seccompProfiles": "seccomp_profiles"}
"""Of the main document's machine, by path, where no document replaces them; the others follow from those."""


def find_unread(config: Config) -> Iterator[Note]:
    """One finding for all of them: a generated config has two dozen."""
    names = {path for path, newer in find_replaced(config) if UNREAD_KINDS.issuperset(newer)}
    names |= {
        path for path, field in UNREAD_SETTINGS.items() if getattr(config.machine, field, None) is not None
    }
    names |= {*_find_cloud_addresses(config), *_find_network_policies(config), *_find_upkeep(config)}
    kinds = {document.kind for document in config.documents if document.kind in UNREAD_KINDS}
    if names or kinds:
        listed = ", ".join([*sorted(names), *sorted(kinds)])
        yield Note(f"no effect yet on nodes of this version: {listed}")


def _find_upkeep(config: Config) -> Iterator[str]:
    """Settings of users' volumes that nothing acts on."""
    for document in config.find_all(UserVolumeConfig):
        for path, value in (
            ("filesystem.xfs", document.filesystem and document.filesystem.xfs),
            ("trim", document.trim),
            ("scrub", document.scrub),
        ):
            if value is not None:
                yield f"UserVolumeConfig {document.name} {path}"


def _find_network_policies(config: Config) -> Iterator[str]:
    """Where flannel is to enforce policies, which is the work of another program beside it."""
    network = config.cluster.network if config.cluster else None
    cni, name = network.cni if network else None, "kubeNetworkPoliciesEnabled"
    if cni and cni.flannel and cni.flannel.kube_network_policies_enabled:
        yield f"cluster.network.cni.flannel.{name}"
    if (document := config.find(KubeFlannelCNIConfig)) and document.kube_network_policies_enabled:
        yield f"KubeFlannelCNIConfig {name}"


def _find_cloud_addresses(config: Config) -> Iterator[str]:
    """Virtual addresses that a cloud is to move: the address itself is announced as on any other network."""
    network = config.machine.network if config.machine else None
    for index, device in enumerate((network and network.interfaces) or ()):
        at = f"machine.network.interfaces[{index}]"
        parts = [(at, device.vip)]
        parts += [(f"{at}.vlans[{number}]", vlan.vip) for number, vlan in enumerate(device.vlans or ())]
        for path, vip in parts:
            if vip and vip.hcloud:
                yield f"{path}.vip.hcloud"
            if vip and vip.equinix_metal:
                yield f"{path}.vip.equinixMetal"
