"""``UdevRulesConfig``: additional udev rules."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class UdevRulesConfig(Document):
    """Additional udev rules."""

    kind: ClassVar[str] = "UdevRulesConfig"

    rules: tuple[str, ...] | None = setting("udev rules, one a line")
