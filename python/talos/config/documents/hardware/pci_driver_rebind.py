"""``PCIDriverRebindConfig``: another driver for a PCI device."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PCIDriverRebindConfig(Document):
    """Another driver for a PCI device."""

    kind: ClassVar[str] = "PCIDriverRebindConfig"
    named: ClassVar[bool] = True

    name: str = setting("bus address of the device", default="")
    target_driver: str = setting("the other driver", default="")
