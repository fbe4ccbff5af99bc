"""``cluster.discovery``."""

from dataclasses import dataclass

from talos.config.schema import Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryKubernetesConfig(Section):
    """Through the nodes' annotations."""

    disabled: bool | None = setting("do not use it")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryServiceConfig(Section):
    """Through a service."""

    disabled: bool | None = setting("do not use it")
    endpoint: str | None = setting("URL of the service")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRegistriesConfig(Section):
    """Where they do."""

    kubernetes: RegistryKubernetesConfig = setting(
        "through the nodes' annotations", default=RegistryKubernetesConfig()
    )
    service: RegistryServiceConfig = setting("through a service", default=RegistryServiceConfig())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiscoveryConfig(Section):
    """How members find each other."""

    enabled: bool | None = setting("let them")
    registries: DiscoveryRegistriesConfig = setting("where they do", default=DiscoveryRegistriesConfig())
