"""The main document's fields that a document of its own has replaced."""

from collections.abc import Iterator, Mapping
from typing import Any

from talos.config.check.note import Note
from talos.config.documents.network.resolver import HostDNSConfig, ResolverConfig
from talos.config.documents.registry import document_type
from talos.config.model import Config
from talos.config.schema import Form, Section, fields_of

_WITHOUT_PLACE = ("extraMounts", "extraVolumes")
"""Settings that the document of their section lacks."""
_TOGETHER = frozenset({"EnvironmentConfig", "SysctlConfig", "SysfsConfig", "UdevRulesConfig"})
"""Kinds that stand beside the main document's setting, as upstream."""
_SHADOWED: Mapping[str, str] = {
    "machine.udev.rules": "UdevRulesConfig",
    "cluster.acceptedCAs": "KubeAPIServerCAConfig",
}
"""Settings that may stand beside their document, which is then read alone, as upstream."""
_AS_WHOLE: Mapping[str, tuple[str, ...]] = {
    "machine.features.stableHostname": ("HostnameConfig",),
    "machine.kubelet": ("KubeletConfig", "KubeCredentialProviderConfig"),
    "cluster.network": ("KubeNetworkConfig", "KubeFlannelCNIConfig"),
    "cluster.aggregatorCA": ("KubeAggregatorCAConfig",),
    "cluster.apiServer": ("KubeAPIServerConfig",),
    "cluster.apiServer.admissionControl": ("KubeAdmissionControlConfig",),
    "cluster.discovery": ("DiscoveryServiceConfig",),
}
"""Settings that exclude these kinds whatever is in them, as upstream, where no setting below one does."""
_TIMES = ("disabled", "servers", "boot_timeout")
"""Settings of ``machine.time`` that exclude its document, unless they are false or empty."""


def check_conflicts(config: Config) -> Iterator[Note]:
    """A setting is either in the main document or in its own, not in both."""
    kinds = {document.kind for document in config.documents}
    found = set[str]()
    for path, newer in find_replaced(config):
        if path in _SHADOWED or _TOGETHER.issuperset(newer) or not _is_effective(config, path):
            continue
        if len(newer) == 1 and newer[0] in kinds and not document_type(newer[0]).named:
            found.add(path)
            section, _, key = path.rpartition(".")
            if key in _WITHOUT_PLACE:
                text, hint = f"does not go with {newer[0]}", f"leave {newer[0]} out and keep {section}"
            else:
                text, hint = f"is also set by {newer[0]}", f"keep only {newer[0]}"
            yield Note(text, config.main, path, hint=hint)
    for path, newer in _AS_WHOLE.items():
        newest = next((kind for kind in newer if kind in kinds), "")
        value = _find(config.main, path)
        if (
            newest
            and _is_set(value)
            and value is not False
            and not any(one.startswith(path) for one in found)
        ):
            yield Note(f"is also set by {newest}", config.main, path, hint=f"keep only {newest}")


def find_shadowed(config: Config) -> Iterator[Note]:
    """Settings that have no effect beside a document."""
    kinds = {document.kind for document in config.documents}
    for path, kind in _SHADOWED.items():
        if kind in kinds and _is_set(_find(config.main, path)):
            yield Note(f"no effect: {kind} is read alone", config.main, path, hint=f"move it to {kind}")


def _is_effective(config: Config, path: str) -> bool:
    """Whether a setting has another value than without it; only some are looked at."""
    match path:
        case "machine.features.hostDNS":
            # Versions before v1.14 have their name servers in ResolverConfig, and this here.
            return _has_host_dns(config)
        case "machine.network.disableSearchDomain":
            return bool(_find(config.main, path))
        case "machine.time":
            time = _find(config.main, path)
            return any(getattr(time, name) for name in _TIMES)
        case _:
            return True


def _find(section: Section | None, path: str) -> Any:
    """The value at a path of sections; None where there is none."""
    value: Any = section
    for key in path.split("."):
        if value is None:
            return None
        value = getattr(value, fields_of(type(value))[key].name)
    return value


def _has_host_dns(config: Config) -> bool:
    document = config.find(ResolverConfig)
    return document is not None and document.host_dns not in {None, HostDNSConfig()}


def find_replaced(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Path of each replaced setting and the kinds that replace it."""
    if config.main is not None:
        yield from _walk(config.main, "", ())


def _walk(section: Section, path: str, inherited: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key, field in fields_of(type(section)).items():
        value = getattr(section, field.name)
        if not _is_set(value):
            continue
        below = f"{path}.{key}" if path else key
        newer = field.setting.replaced_by or inherited
        if field.shape.form is Form.SECTION and (not newer or _has_replaced(field.shape.type)):
            yield from _walk(value, below, newer)
        elif newer:
            yield below, newer


def _has_replaced(section: type[Section]) -> bool:
    return any(field.setting.replaced_by for field in fields_of(section).values())


def _is_set(value: Any) -> bool:
    return value is not None and value != () and value != ""
