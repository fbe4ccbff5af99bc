"""``cluster.discovery``."""

from dataclasses import dataclass

from talos.config.schema import Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryKubernetesConfig(Section):
    """Discovery by the annotations of Kubernetes nodes."""

    disabled: bool | None = setting("disable it")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryServiceConfig(Section):
    """Discovery by a service."""

    disabled: bool | None = setting("disable it")
    endpoint: str | None = setting("URL of the service")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRegistriesConfig(Section):
    """Registries of members."""

    kubernetes: RegistryKubernetesConfig = setting(
        "through the nodes' annotations", default=RegistryKubernetesConfig()
    )
    service: RegistryServiceConfig = setting("through a service", default=RegistryServiceConfig())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiscoveryConfig(Section):
    """Discovery of members."""

    enabled: bool | None = setting("let them")
    registries: DiscoveryRegistriesConfig = setting(
        "registries of members", default=DiscoveryRegistriesConfig()
    )
