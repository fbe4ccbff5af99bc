"""``HCloudVIPConfig``: a virtual address of Hetzner Cloud."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HCloudVIPConfig(Document):
    """A virtual address of Hetzner Cloud."""

    kind: ClassVar[str] = "HCloudVIPConfig"
    named: ClassVar[bool] = True

    name: str = setting("the virtual address", default="")
    link: str | None = setting("link that carries the address")
    api_token: str | None = setting("token for the provider's API", secret=True)
