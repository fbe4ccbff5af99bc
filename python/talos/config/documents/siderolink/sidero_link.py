"""``SideroLinkConfig``: a management connection to a central service."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class SideroLinkConfig(Document):
    """A management connection to a central service."""

    kind: ClassVar[str] = "SideroLinkConfig"

    api_url: Url | None = setting("URL of the service", schemes=("https", "grpc"), private=True)
    unique_token: str | None = setting("token of this machine alone", secret=True)
