"""The effective settings of a machine, from the main document or a document of its own.

Every function takes a config; where both have a setting, the document takes precedence. What is absent
is None or empty, or upstream's default. So it is in the modules beside this one.
"""

from collections.abc import Mapping

from talos.config.documents.block.zswap import ZswapConfig
from talos.config.documents.cri.base_runtime_spec import CRIBaseRuntimeSpecConfig
from talos.config.documents.cri.customization import CRICustomizationConfig
from talos.config.documents.cri.image_cache import ImageCacheConfig
from talos.config.documents.hardware.pci_driver_rebind import PCIDriverRebindConfig
from talos.config.documents.runtime.environment import EnvironmentConfig
from talos.config.documents.runtime.etc_file import EtcFileConfig
from talos.config.documents.runtime.event_sink import EventSinkConfig
from talos.config.documents.runtime.kmsg_log import KmsgLogConfig
from talos.config.documents.runtime.oom import OOMConfig
from talos.config.documents.runtime.security_profile import SecurityProfileConfig
from talos.config.documents.runtime.sysctl import SysctlConfig
from talos.config.documents.runtime.sysfs import SysfsConfig
from talos.config.documents.runtime.udev_rules import UdevRulesConfig
from talos.config.documents.runtime.watchdog_timer import WatchdogTimerConfig
from talos.config.documents.security.trusted_roots import TrustedRootsConfig
from talos.config.documents.siderolink.sidero_link import SideroLinkConfig
from talos.config.documents.v1alpha1.machine import LoggingDestination, MachineFile
from talos.config.effective.sections import find_machine
from talos.config.model import Config
from talos.config.values import NOTHING, Unstructured

ZSWAP_POOL_PERCENT = 20
"""Upstream's largest share of memory for pages that are compressed."""
ZSWAP = "module.zswap.parameters"
"""Where the kernel has them, below /sys."""


def cert_sans(config: Config) -> tuple[str, ...]:
    """Further names and addresses for the server certificates of the node's API."""
    return find_machine(config).cert_sans


def is_debugged(config: Config) -> bool:
    """Whether the console has the logs of all services."""
    return bool(config.main and config.main.debug)


def is_image_cache_enabled(config: Config) -> bool:
    """Whether the node's own cache of images is used."""
    document = config.find(ImageCacheConfig)
    if document is not None:
        return bool(document.local and document.local.enabled)
    features = find_machine(config).features
    return bool(features and features.image_cache and features.image_cache.local_enabled)


def has_disk_quota(config: Config) -> bool:
    """Whether EPHEMERAL counts the space of each project."""
    features = find_machine(config).features
    return bool(features and features.disk_quota_support)


def isolates_workloads(config: Config) -> bool:
    """Whether Kubernetes and its pods run in a pid and a mount namespace of their own."""
    document = config.find(SecurityProfileConfig)
    return bool(document and document.workload_isolation)


def sysctls(config: Config) -> Mapping[str, str]:
    """Kernel parameters."""
    document = config.find(SysctlConfig)
    return {**(find_machine(config).sysctls or {}), **((document and document.params) or {})}


def watchdog_timer(config: Config) -> WatchdogTimerConfig | None:
    """The hardware watchdog, None when it is off."""
    return config.find(WatchdogTimerConfig)


def log_destinations(config: Config) -> tuple[LoggingDestination, ...]:
    """Where the services' logs are sent."""
    logging = find_machine(config).logging
    return tuple(item for item in (logging.destinations if logging else ()) if item.endpoint)


def kernel_log_destinations(config: Config) -> tuple[str, ...]:
    """Where the kernel's log is sent, as URLs."""
    return tuple(document.url for document in config.find_all(KmsgLogConfig) if document.url)


def event_sink(config: Config) -> str:
    """Where events are sent, empty for nowhere."""
    document = config.find(EventSinkConfig)
    return (document and document.endpoint) or ""


def siderolink_url(config: Config) -> str:
    """SideroLink's API with what lets the node join, empty for none."""
    document = config.find(SideroLinkConfig)
    return (document and document.api_url) or ""


def unique_machine_token(config: Config) -> str:
    """The token of this machine alone, as SideroLink's server gave it; empty for none."""
    document = config.find(SideroLinkConfig)
    return (document and document.unique_token) or ""


def etc_files(config: Config) -> tuple[EtcFileConfig, ...]:
    """Files below /etc."""
    return config.find_all(EtcFileConfig)


def trusted_roots(config: Config) -> tuple[tuple[str, str], ...]:
    """Authorities that the node trusts beside those of the image: names, and certificates in PEM."""
    return tuple((one.name, one.certificates or "") for one in config.find_all(TrustedRootsConfig))


def oom(config: Config) -> OOMConfig | None:
    """What happens when memory runs out, None for the defaults."""
    return config.find(OOMConfig)


def pci_drivers(config: Config) -> Mapping[str, str]:
    """Drivers of PCI devices other than the kernel's choice, by the device's address."""
    return {one.name: one.target_driver for one in config.find_all(PCIDriverRebindConfig) if one.name}


def sysfs(config: Config) -> Mapping[str, str]:
    """Kernel parameters under /sys: those of ``ZswapConfig``, which named ones replace."""
    document = config.find(SysfsConfig)
    return {
        **_zswap(config.find(ZswapConfig)),
        **(find_machine(config).sysfs or {}),
        **((document and document.params) or {}),
    }


def _zswap(document: ZswapConfig | None) -> Mapping[str, str]:
    if document is None:
        return {}
    percent = document.max_pool_percent
    return {
        f"{ZSWAP}.enabled": "Y",
        f"{ZSWAP}.max_pool_percent": str(ZSWAP_POOL_PERCENT if percent is None else percent),
        f"{ZSWAP}.shrinker_enabled": "Y" if document.shrinker_enabled else "N",
    }


def environment(config: Config) -> Mapping[str, str]:
    """Environment variables of the node's services."""
    document = config.find(EnvironmentConfig)
    return {**(find_machine(config).env or {}), **((document and document.variables) or {})}


CUSTOMIZATION_FILE, CUSTOMIZATION = "/etc/cri/conf.d/20-customization.part", "customization"
"""A file of the main document that is none: a part of containerd's configuration, and its name."""


def files(config: Config) -> tuple[MachineFile, ...]:
    """Files to write at each boot."""
    return tuple(file for file in find_machine(config).files or () if file.path != CUSTOMIZATION_FILE)


def cri_customizations(config: Config) -> Mapping[str, str]:
    """Parts of containerd's configuration by name; a document's goes before the main one's."""
    contents = [file.content for file in find_machine(config).files or () if file.path == CUSTOMIZATION_FILE]
    older = {CUSTOMIZATION: contents[-1]} if contents else {}
    documents = config.find_all(CRICustomizationConfig)
    return {**older, **{document.name: document.content or "" for document in documents}}


def seccomp_profiles(config: Config) -> Mapping[str, Unstructured]:
    """Filters of system calls for pods, by the name of their file."""
    return {one.name: one.value or NOTHING for one in find_machine(config).seccomp_profiles or ()}


def runtime_spec_overrides(config: Config) -> Unstructured:
    """Changes to the OCI runtime spec that every container starts from."""
    document = config.find(CRIBaseRuntimeSpecConfig)
    chosen = document.overrides if document else find_machine(config).base_runtime_spec_overrides
    return chosen or NOTHING


def udev_rules(config: Config) -> tuple[str, ...]:
    """Rules for devices, in their order; the main document's only where there is none of their own."""
    udev = config.find(UdevRulesConfig) or find_machine(config).udev
    return (udev and udev.rules) or ()
