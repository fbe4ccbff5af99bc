"""``FilesystemTrimConfig``: regular discard of unused blocks."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemTrimConfig(Document):
    """Regular discard of unused blocks."""

    kind: ClassVar[str] = "FilesystemTrimConfig"

    interval: Duration | None = setting("time between two runs")
