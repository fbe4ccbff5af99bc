"""``DiscoveryServiceConfig``: a service for discovery of the cluster's members."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryServiceConfig(Document):
    """A service for discovery of the cluster's members."""

    kind: ClassVar[str] = "DiscoveryServiceConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the service", default="")
    endpoint: Url = setting("URL of the service", default=Url(""), schemes=("http", "https", "grpc"))
