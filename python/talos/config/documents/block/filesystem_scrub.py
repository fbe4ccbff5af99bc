"""``FilesystemScrubConfig``: regular check of mounted filesystems."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemScrubConfig(Document):
    """Regular check of mounted filesystems."""

    kind: ClassVar[str] = "FilesystemScrubConfig"

    interval: Duration | None = setting("time between two runs (default: 168h (min 10s))")
