"""``ExtensionServiceConfig``: files and environment of a system extension's service."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile(Section):
    """Files for the service."""

    content: str | None = setting("content of the file", private=True)
    mount_path: str | None = setting("path inside the service")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionServiceConfig(Document):
    """Files and environment of a system extension's service."""

    kind: ClassVar[str] = "ExtensionServiceConfig"
    named: ClassVar[bool] = True
    applies: ClassVar[Applies] = Applies.LIVE

    name: str = setting("name of the extension's service", default="")
    config_files: tuple[ConfigFile, ...] | None = setting("files for the service", merge_key="mountPath")
    environment: tuple[str, ...] | None = setting("environment variables, NAME=value", private=True)
