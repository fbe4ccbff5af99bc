"""``SysfsConfig``: kernel parameters under /sys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsConfig(Document):
    """Kernel parameters under /sys."""

    kind: ClassVar[str] = "SysfsConfig"

    params: Mapping[str, str] | None = setting("name and value")
