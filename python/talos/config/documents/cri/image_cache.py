"""``ImageCacheConfig``."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImageCacheConfig(Section):
    """Images on the node's own disk."""

    enabled: bool | None = setting("use them")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCacheConfig(Document):
    """Images that the node brings with it."""

    kind: ClassVar[str] = "ImageCacheConfig"

    local: LocalImageCacheConfig | None = setting("images on the node's own disk")
