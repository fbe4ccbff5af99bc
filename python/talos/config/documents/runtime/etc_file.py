"""``EtcFileConfig``: a file under /etc."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import FILE_MODE, Document, setting
from talos.config.values import FileMode


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcFileConfig(Document):
    """A file under /etc."""

    kind: ClassVar[str] = "EtcFileConfig"
    named: ClassVar[bool] = True

    name: str = setting("path below /etc", default="")
    mode: FileMode | None = setting("permission bits", bounds=FILE_MODE)
    contents: str | None = setting("content of the file", private=True)
