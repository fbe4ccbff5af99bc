"""``Layer2VIPConfig``: a virtual address that control plane nodes share."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer2VIPConfig(Document):
    """A virtual address that control plane nodes share."""

    kind: ClassVar[str] = "Layer2VIPConfig"
    named: ClassVar[bool] = True

    name: str = setting("the virtual address", default="")
    link: str | None = setting("link that carries the address")
