"""``ImageCacheConfig``: container images stored on the node."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImageCacheConfig(Section):
    """Images on the node's own disk."""

    enabled: bool | None = setting("use them")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCacheConfig(Document):
    """Container images stored on the node."""

    kind: ClassVar[str] = "ImageCacheConfig"

    local: LocalImageCacheConfig | None = setting("images on the node's own disk")
