"""``KernelModuleConfig``: a kernel module to load."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModuleConfig(Document):
    """A kernel module to load."""

    kind: ClassVar[str] = "KernelModuleConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the module", default="")
    parameters: tuple[str, ...] | None = setting("parameters of the module")
