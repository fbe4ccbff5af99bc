"""``KernelModuleConfig``."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import REQUIRED, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModuleConfig(Document):
    """A kernel module to load."""

    kind: ClassVar[str] = "KernelModuleConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the module", default=REQUIRED)
    parameters: tuple[str, ...] | None = setting("parameters of the module")
