"""``SysctlConfig``: kernel parameters under /proc/sys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SysctlConfig(Document):
    """Kernel parameters under /proc/sys."""

    kind: ClassVar[str] = "SysctlConfig"

    params: Mapping[str, str] | None = setting("name and value")
